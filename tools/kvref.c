/* SPDX-License-Identifier: MIT */
/* The kvref program: finds the subcommand and runs it. */
#include "kvref/status.h"

#include <stdio.h>

int main(void)
{
    fputs("kvref: no subcommand is built yet\n", stderr);
    return 2;
}
