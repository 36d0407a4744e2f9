#!/bin/sh
# SPDX-License-Identifier: MIT
# The float64 oracle, written from the formulas alone, agrees with upstream's numbers: every tap
# of the stored cases with forced codes, the codes it draws itself, and all runs of golden-lm.json.
# A changed weight, a changed code and a changed tap are then shown to be noticed.
set -eu

golden=${srcdir:-.}/golden
python=
for candidate in ${PYTHON:-} /usr/bin/python3 python3; do
    if "$candidate" -c 'import numpy' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "skipped: no python3 with numpy"
    exit 77
fi
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE

oracle() {
    "$python" "$golden/oracle.py" "$@"
}

for case in A B L D; do
    oracle check "$golden/lm/$case.json" "$golden/lm/$case.safetensors"
    oracle free "$golden/lm/$case.json" "$golden/lm/$case.safetensors"
done
oracle runs "$golden/lm/golden-lm.json"

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT

must_differ() {
    if oracle check "$1" "$2" >"$temp/out"; then
        echo "not noticed: $3"
        cat "$temp/out"
        exit 1
    fi
    echo "noticed: $3"
}

# A wrong norm eps is the smallest fault that the limit must see; a float of B is flipped in sign.
sed 's/"norm_eps": 1e-06/"norm_eps": 1e-05/' "$golden/lm/A.json" >"$temp/eps.json"
must_differ "$temp/eps.json" "$golden/lm/A.safetensors" "norm eps 1e-5 for 1e-6"
sed 's/"rope_base": 5000/"rope_base": 5001/' "$golden/lm/D.json" >"$temp/base.json"
must_differ "$temp/base.json" "$golden/lm/D.safetensors" "rotation base 5001 for 5000"
sed 's/"rope_table": "f32"/"rope_table": "bf16"/' "$golden/lm/D.json" >"$temp/table.json"
must_differ "$temp/table.json" "$golden/lm/D.safetensors" "bfloat16 rotation tables for float32"
"$python" - "$golden/lm/B.safetensors" "$temp/B.safetensors" <<'EOF'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[100003] ^= 0x80
open(sys.argv[2], "wb").write(data)
EOF
must_differ "$golden/lm/B.json" "$temp/B.safetensors" "one sign of one tap"
