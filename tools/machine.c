/* SPDX-License-Identifier: MIT */
/* The machine as /proc and the clock tell of it. */
#include "tools/machine.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

void machine_proc(char *out, size_t cap, const char *path, const char *key)
{
    char line[512];
    FILE *f = fopen(path, "r");
    snprintf(out, cap, "unknown");
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || !colon) continue;
        colon += 1 + strspn(colon + 1, " \t");
        colon[strcspn(colon, "\n")] = 0;
        snprintf(out, cap, "%s", colon);
        break;
    }
    if (f) fclose(f);
}

void machine_date(char out[21])
{
    time_t now = time(NULL);
    struct tm t;
    if (!gmtime_r(&now, &t) || strftime(out, 21, "%Y-%m-%dT%H:%M:%SZ", &t) == 0)
        snprintf(out, 21, "unknown");
}
