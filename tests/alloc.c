/* SPDX-License-Identifier: MIT */
#include "tests/alloc.h"

int alloc_count;
size_t alloc_bytes;
long alloc_left = -1;
bool alloc_failed;

static bool fails(void)
{
    alloc_count++;
    if (alloc_left < 0 || alloc_left-- > 0) return false;
    alloc_failed = true;
    return true;
}

/* The names that the linker gives them. NOLINTBEGIN(bugprone-reserved-identifier) */
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);

void *__wrap_malloc(size_t n)
{
    alloc_bytes += n;
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    alloc_bytes += n * size;
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    alloc_bytes += n;
    return fails() ? NULL : __real_realloc(p, n);
}

char *__wrap_strdup(const char *s)
{
    return fails() ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
    return fails() ? NULL : __real_strndup(s, n);
}

/* NOLINTEND(bugprone-reserved-identifier) */
