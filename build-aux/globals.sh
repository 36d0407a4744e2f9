#!/usr/bin/env bash
# The library must hold no mutable globals: every object's .data and .bss are empty, whatever
# their suffix; only .data.rel.ro is constant (once addresses are filled in).
# usage: globals.sh libkvref.a (of a build without sanitizers or coverage)
set -u
archive=${1:?usage: globals.sh ARCHIVE}
objdump -h "$archive" | awk '
    /file format/ {object = $1}
    $2 ~ /^\.(data|bss|tdata|tbss)($|\.)/ && $2 !~ /^\.data\.rel\.ro($|\.)/ && $3 !~ /^0+$/ {
        print "globals: " object " " $2 " holds 0x" $3 " bytes"; bad = 1}
    END {exit bad}' || exit 1
n=$(ar t "$archive" | wc -l)
[ "$n" -gt 0 ] || exit 2
echo "globals: none in $n objects"
