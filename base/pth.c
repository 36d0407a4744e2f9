/* SPDX-License-Identifier: MIT */
/* Torch .pth archives are not read by this build. */
#include "base/file.h"

kvref_status kvref_pth_parse(kvref_file *f, int part, const kvref_log *log, kvref_error *err)
{
    (void)log;
    return kvref_fail(err,
                      KVREF_E_UNSUPPORTED,
                      "%s: a torch .pth archive, which this build does not read",
                      f->part[part].path);
}
