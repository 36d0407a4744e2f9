#!/bin/sh
# SPDX-License-Identifier: MIT
# The golden data are those that were committed: every data file is listed in SHA256SUMS and
# unchanged, and the folder stays within its budget. Nothing is regenerated here.
set -eu

golden=${srcdir:-.}/golden
budget=4000000

cd "$golden"
sha256sum --check --strict --quiet SHA256SUMS

listed=$(sed 's/^[0-9a-f]*  //' SHA256SUMS | sort)
present=$(find . -type f \( -name '*.safetensors' -o -name '*.json' -o -name '*.txt' -o -name '*.npy' -o -name '*.pth' \) |
    sed 's|^\./||' | sort)
if [ "$listed" != "$present" ]; then
    echo "files listed in SHA256SUMS and files present differ:"
    printf '%s\n' "$listed" >&2
    printf 'present: %s\n' "$present"
    exit 1
fi

total=$(find . -type f -exec cat {} + | wc -c)
echo "$(printf '%s\n' "$listed" | wc -l) files unchanged, $total of $budget bytes"
[ "$total" -le "$budget" ]
