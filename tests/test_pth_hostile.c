/* SPDX-License-Identifier: MIT */
/* Hostile .pth archives: spoiled zip records, pickles that underflow, overflow, cheat or ask
 * for more than state dicts need. Each is refused with its own message. */
#include "base/file.h"
#include "tests/pth_make.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kvref_error err;
static make_zip zip;

/* Parses n bytes in memory of exactly that size, so that a sanitizer sees an overrun. */
static kvref_status parse(const uint8_t *data, size_t n)
{
    int part;
    kvref_file *f;
    uint8_t *copy = malloc(n + !n);
    if (n) memcpy(copy, data, n);
    must(kvref_file_new(&f, &err), err);
    must(kvref_file_add_memory(f, &part, "x.pth", copy, n, &err), err);
    err.text[0] = 0;
    kvref_status s = kvref_pth_parse(f, part, NULL, &err);
    if (s == KVREF_OK) s = kvref_file_finish(f, &err);
    ck_assert_msg((s == KVREF_OK) == (err.text[0] == 0), "status without message");
    ck_assert_msg(s == KVREF_OK || strncmp(err.text, "x.pth: ", 7) == 0, "%s", err.text);
    kvref_file_close(&f);
    free(copy);
    return s;
}

#define T8    "T:ByteStorage:0:8:0:8:1"
#define S8    "S:ByteStorage:0:8"
#define F     KVREF_E_FORMAT
#define U     KVREF_E_UNSUPPORTED
#define TUPLE "'w' c:torch._utils:_rebuild_tensor_v2 "

/* Pickles, in the words of make_pickle; the archive has one storage, 0, of 8 bytes. */
static const struct {
    const char *words;
    kvref_status status;
    const char *says;
} bad_pickle[] = {
    {"", U, "does not start as protocol 2"},
    {"x80", U, "does not start as protocol 2"},
    {"P3 } .", U, "does not start as protocol 2"},
    {"P4 } .", U, "does not start as protocol 2"},
    {"} .", U, "does not start as protocol 2"},
    {"P2 P2 } .", U, "opcode 0x80 is not supported"},
    {"P2", F, "truncated, no STOP"},
    {"P2 }", F, "truncated, no STOP"},
    {"P2 } x88", F, "truncated, no STOP"},
    {"P2 } X x05 x00 x00 x00 x41", F, "truncated in a text"},
    {"P2 } X x05 x00", F, "truncated in an operand"},
    {"P2 } X xff xff xff xff x41", F, "truncated in a text"},
    {"P2 } X x02 x00 x00 x00 xc3 x28 .", F, "a text is not UTF-8"},
    {"P2 } X x01 x00 x00 x00 xff .", F, "a text is not UTF-8"},
    {"P2 c x61 x62", F, "truncated in a global"},
    {"P2 c x61 x0a x62", F, "truncated in a global"},
    {"P2 J x01 x00 x00", F, "truncated in an operand"},
    {"P2 M x01", F, "truncated in an operand"},
    {"P2 K", F, "truncated in an operand"},
    {"P2 G x00 x00", F, "truncated in an operand"},
    {"P2 x8a", F, "truncated in an operand"},
    {"P2 x8a x04 x01", F, "truncated in an operand"},
    {"P2 x8a x09 x01 x01 x01 x01 x01 x01 x01 x01 x01 .", F, "an integer of over 8 bytes"},
    {"P2 x8a xff .", F, "an integer of over 8 bytes"},
    {"P2 x8b xff xff xff x7f x00 .", U, "opcode 0x8b is not supported"}, /* LONG4 */
    {"P2 .", F, "stack underflow"},
    {"P2 t .", F, "no mark on the stack"},
    {"P2 } u .", F, "no mark on the stack"},
    {"P2 ] 1 e .", F, "no mark on the stack"},
    {"P2 x85 .", F, "stack underflow"},
    {"P2 1 x86 .", F, "stack underflow"},
    {"P2 1 2 x87 .", F, "stack underflow"},
    {"P2 q0 } .", F, "stack underflow"},
    {"P2 R .", F, "stack underflow"},
    {"P2 ) R .", F, "stack underflow"},
    {"P2 Q .", F, "stack underflow"},
    {"P2 b .", F, "stack underflow"},
    {"P2 } b .", F, "stack underflow"},
    {"P2 s .", F, "stack underflow"},
    {"P2 } 'a' s .", F, "stack underflow"},
    {"P2 a .", F, "stack underflow"},
    {"P2 1 a .", F, "stack underflow"},
    {"P2 ( u .", F, "stack underflow"},
    {"P2 ( x85 .", F, "a mark where a value is needed"},
    {"P2 } ( ( 'a' s .", F, "a mark where a value is needed"},
    {"P2 ( .", F, "a mark where a value is needed"},
    {"P2 ( q0 .", F, "a mark where a value is needed"},
    {"P2 } ( b .", F, "a mark where a value is needed"},
    {"P2 h0 .", F, "memo 0 was never set"},
    {"P2 } q1 h0 .", F, "memo 0 was never set"},
    {"P2 } q0 j4294967295 .", F, "memo 4294967295 was never set"},
    {"P2 } q200 .", F, "a memo number of over 2^20, or over the pickle's size"},
    {"P2 } r4294967295 .", F, "a memo number of over 2^20"},
    {"P2 } r1048576 .", F, "a memo number of over 2^20"},
    {"P2 } 1 .", F, "STOP with more than one value"},
    {"P2 } . .", F, "bytes after STOP"},
    {"P2 1 .", F, "the pickle holds no dict"},
    {"P2 ] .", F, "the pickle holds no dict"},
    {"P2 " T8 " .", F, "the pickle holds no dict"},
    {"P2 } 'state_dict' ] s .", F, "expected a dict under 'state_dict'"},
    {"P2 } 'state_dict' N s .", F, "expected a dict under 'state_dict'"},
    {"P2 } ( 'a' u .", F, "a key without a value"},
    {"P2 ] ( 'a' 1 u .", F, "set in no dict"},
    {"P2 1 'a' 1 s .", F, "set in no dict"},
    {"P2 } 1 a .", F, "append to no list"},
    {"P2 ) ( 1 e .", F, "append to no list"},
    {"P2 } q0 'a' h0 s .", F, "a container put into itself"},
    {"P2 } q0 ( 'a' 1 'b' h0 u .", F, "a container put into itself"},
    {"P2 ] q0 h0 a .", F, "a container put into itself"},
    {"P2 ] q0 ( h0 e .", F, "a container put into itself"},
    {"P2 } q0 x85 q1 h0 'a' h1 s x86 .",
     F,
     "a container changed after it was put into another"},
    {"P2 } q0 'a' } q1 s h1 'b' h0 s .",
     F,
     "a container changed after it was put into another"},
    {"P2 ] q0 ] q1 a h1 h0 a .", F, "a container changed after it was put into another"},
    {"P2 D q0 'a' h0 s .", F, "a container put into itself"},
    {"P2 c:os:system 'x' x85 R .", U, "forbidden global 'os system'"},
    {"P2 c:builtins:eval 'x' x85 R .", U, "forbidden global 'builtins eval'"},
    {"P2 c:torch:OrderedDict .", U, "forbidden global 'torch OrderedDict'"},
    {"P2 c:collections:OrderedDictX .", U, "forbidden global 'collections OrderedDictX'"},
    {"P2 c:collections:Ordered .", U, "forbidden global 'collections Ordered'"},
    {"P2 c:coll:OrderedDict .", U, "forbidden global 'coll OrderedDict'"},
    {"P2 c:: .", U, "forbidden global ' '"},
    {"P2 c:torch:QInt8Storage .", U, "forbidden global 'torch QInt8Storage'"},
    {"P2 c:torch._utils:_rebuild_sparse_tensor .", U, "_rebuild_sparse_tensor'"},
    {"P2 c x1b x5b x32 x4a x0a x07 x0a .", U, "forbidden global '?[2J ?'"},
    {"P2 x93 .", U, "opcode 0x93 is not supported"},     /* STACK_GLOBAL */
    {"P2 i .", U, "opcode 0x69 is not supported"},       /* INST */
    {"P2 o .", U, "opcode 0x6f is not supported"},       /* OBJ */
    {"P2 x81 .", U, "opcode 0x81 is not supported"},     /* NEWOBJ */
    {"P2 x82 x01 .", U, "opcode 0x82 is not supported"}, /* EXT1 */
    {"P2 } 0 x30 .", U, "opcode 0x30 is not supported"}, /* POP */
    {"P2 ) ) R .", F, "a call of something other than a global with a tuple"},
    {"P2 c:collections:OrderedDict } R .", F, "a call of something other than a global"},
    {"P2 c:torch:FloatStorage ) R .", F, "a call of something other than a global"},
    {"P2 c:collections:OrderedDict 1 x85 R .", F, "OrderedDict with arguments"},
    {"P2 c:torch._utils:_rebuild_parameter 1 x88 D x87 R .", F, "_rebuild_parameter without"},
    {"P2 c:torch._utils:_rebuild_parameter " T8 " x88 x86 R .",
     F,
     "_rebuild_parameter without"},
    {"P2 1 ) b .", F, "a state given to something other than a dict"},
    {"P2 1 Q .", F, "a persistent id that is no"},
    {"P2 ( 'storage' c:torch:FloatStorage '0' 'cpu' t Q .", F, "a persistent id that is no"},
    {"P2 ( 'module' c:torch:FloatStorage '0' 'cpu' 1 t Q .", F, "a persistent id that is no"},
    {"P2 ( 'storag_' c:torch:FloatStorage '0' 'cpu' 1 t Q .", F, "a persistent id that is no"},
    {"P2 ( 'storages' c:torch:FloatStorage '0' 'cpu' 1 t Q .", F, "a persistent id that is no"},
    {"P2 ( 'storage' 'FloatStorage' '0' 'cpu' 1 t Q .", F, "a persistent id that is no"},
    {"P2 ( 'storage' c:torch:FloatStorage 0 'cpu' 1 t Q .", F, "a persistent id that is no"},
    {"P2 } " TUPLE "( 1 0 8 x85 1 x85 x89 D t R s .", F, "_rebuild_tensor_v2 without"},
    {"P2 } " TUPLE "( " S8 " N 8 x85 1 x85 x89 D t R s .", F, "_rebuild_tensor_v2 without"},
    {"P2 } " TUPLE "( " S8 " 0 8 1 x85 x89 D t R s .", F, "_rebuild_tensor_v2 without"},
    {"P2 } " TUPLE "( " S8 " 0 8 x85 1 x89 D t R s .", F, "_rebuild_tensor_v2 without"},
    {"P2 } " TUPLE "( " S8 " 0 8 x85 1 x85 x89 t R s .", F, "_rebuild_tensor_v2 without"},
    {"P2 } " TUPLE "( " S8 " 0 8 x85 1 x85 x89 D N N t R s .", F, "_rebuild_tensor_v2 without"},
    {"P2 } " TUPLE "( " S8 " 0 'x' x85 1 x85 x89 D t R s .", F, "a size or stride that is no"},
    {"P2 } " TUPLE "( " S8 " 0 8 x85 N x85 x89 D t R s .", F, "a size or stride that is no"},
    {"P2 } 'w' T:ByteStorage:7:8:0:8:1 s .", F, "tensor w: the archive has no storage '7'"},
    {"P2 } 'w' T:ByteStorage::8:0:8:1 s .", F, "tensor w: the archive has no storage ''"},
    {"P2 } 'w' T:ByteStorage:../data.pkl:8:0:8:1 s .", F, "has no storage '../data.pkl'"},
    {"P2 } 'w' T:ByteStorage:0:9:0:8:1 s .", F, "expected 9 elements of U8, found 8 bytes"},
    {"P2 } 'w' T:FloatStorage:0:8:0:8:1 s .", F, "expected 8 elements of F32, found 8 bytes"},
    {"P2 } 'w' T:ByteStorage:0:-8:0:8:1 s .", F, "expected -8 elements"},
    {"P2 } 'w' T:FloatStorage:0:4611686018427387906:0:1:1 s .",
     F,
     "expected 4611686018427387906"},
    {"P2 } 'w' T:ByteStorage:0:8:-1:4:1 s .", F, "a negative storage offset"},
    {"P2 } 'w' T:ByteStorage:0:8:8:1:1 s .", F, "reaches element 8 of a storage of 8"},
    {"P2 } 'w' T:ByteStorage:0:8:1:8:1 s .", F, "reaches element 8 of a storage of 8"},
    {"P2 } 'w' T:ByteStorage:0:8:0:2,2:8,1 s .", F, "reaches element 9 of a storage of 8"},
    {"P2 } 'w' T:ByteStorage:0:8:9223372036854775807:2:1 s .", F, "strides that pass 63 bits"},
    {"P2 } 'w' T:ByteStorage:0:8:0:3:9223372036854775807 s .", F, "strides that pass 63 bits"},
    {"P2 } 'w' T:ByteStorage:0:8:0:2,2:9223372036854775807,1 s .", F, "strides that pass 63"},
    {"P2 } 'w' T:ByteStorage:0:8:0:9:0 s .", F, "9 elements in a storage of 8"},
    {"P2 } 'w' T:ByteStorage:0:8:0:1048576,1048576:0,0 s .", F, "1099511627776 elements"},
    {"P2 } 'w' T:ByteStorage:0:8:0:4294967296,4294967296:0,0 s .", F, "product passes 63 bits"},
    {"P2 } 'w' T:ByteStorage:0:8:0:4294967296,4294967296,0:0,0,0 s .", F, "product passes 63"},
    {"P2 } 'w' T:ByteStorage:0:8:0:-1:1 s .", F, "a negative size"},
    {"P2 } 'w' T:ByteStorage:0:8:7:8:-1 s .", U, "a negative stride"},
    {"P2 } 'w' T:ByteStorage:0:8:0:8:1,1 s .", F, "as many strides as sizes"},
    {"P2 } 'w' T:ByteStorage:0:8:0:8: s .", F, "as many strides as sizes"},
    {"P2 } 'w' T:ByteStorage:0:8:0:1,1,1,1,1,1,1,1,1:1,1,1,1,1,1,1,1,1 s .",
     U,
     "more than 8 axes"},
    {"P2 } X x03 x00 x00 x00 x61 x00 x62 " T8 " s .", F, "a name of 3 bytes, or with a NUL"},
    {"P2 } '' " T8 " s .", F, "tensor name of 0 bytes"},
    {"P2 D 'generator.' " T8 " s .", F, "tensor name of 0 bytes"},
};

START_TEST(a_bad_pickle_is_refused_with_its_own_message)
{
    make_archive(&zip, bad_pickle[_i].words, 8);
    make_end(&zip, 0);
    must_fail(parse(zip.out.data, zip.out.n), bad_pickle[_i].status, err, bad_pickle[_i].says);
    make_free(&zip.out);
}
END_TEST

/* Records of a zip, for patches. */
enum { START, LOCAL, CENTRAL, END, END64, LOCATOR };

/* value goes into `width` bytes at `field` of a record; wide archives have zip64 fields. */
static const struct {
    int wide, record, entry, field, width;
    uint64_t value;
    kvref_status status;
    const char *says;
} bad_zip[] = {
    {0, START, 0, 0, 4, 0, U, "no zip archive: unsupported old torch format"},
    {0, START, 0, 0, 4, 0x08074b50, U, "no zip archive"},
    {0, END, 0, 0, 4, 0, F, "no end-of-central-directory record"},
    {0, END, 0, 20, 2, 1, F, "no end-of-central-directory record"},
    {0, END, 0, 10, 2, 2, F, "bytes of central directory after its 2 entries"},
    {0, END, 0, 10, 2, 0, F, "bytes of central directory after its 0 entries"},
    {0, END, 0, 10, 2, 4, F, "4 entries in a central directory of 165"},
    {0, END, 0, 10, 2, 0xffff, F, "65535 entries in a central directory of"},
    {0, END, 0, 12, 4, 0xffffffff, F, "does not lie before offset"},
    {0, END, 0, 12, 4, 100, F, "3 entries in a central directory of 100"},
    {0, END, 0, 12, 4, 160, F, "reaches past its end"},
    {0, END, 0, 12, 4, 140, F, "no central directory record at offset"},
    {0, END, 0, 16, 4, 0xffffffff, F, "does not lie before offset"},
    {0, END, 0, 16, 4, 0, F, "no central directory record at offset 0"},
    {0, CENTRAL, 0, 0, 4, 0, F, "no central directory record at offset"},
    {0, CENTRAL, 1, 8, 2, 0x0809, U, "'x/data/0': is encrypted"},
    {0, CENTRAL, 1, 10, 2, 8, U, "'x/data/0': is compressed, not stored"},
    {0, CENTRAL, 0, 10, 2, 12, U, "'x/data.pkl': is compressed"},
    {0, CENTRAL, 1, 10, 2, 99, U, "'x/data/0': is compressed"},
    {0, CENTRAL, 1, 24, 4, 9, F, "'x/data/0': stored size and size differ"},
    {0, CENTRAL, 1, 20, 4, 0, F, "'x/data/0': stored size and size differ"},
    {0, CENTRAL, 1, 20, 8, 0xfffffffefffffffe, F, "'x/data/0': its data reach past"},
    {0, CENTRAL, 1, 20, 8, 0x0000010000000100, F, "'x/data/0': its data reach past"},
    {0, CENTRAL, 1, 20, 8, 0x0000000900000009, F, "'x/version': overlaps another entry"},
    {0, CENTRAL, 1, 20, 4, 0xffffffff, F, "zip64 extra field is absent or short"},
    {0, CENTRAL, 1, 24, 4, 0xffffffff, F, "zip64 extra field is absent or short"},
    {0, CENTRAL, 1, 42, 4, 0xffffffff, F, "zip64 extra field is absent or short"},
    {0, CENTRAL, 1, 42, 4, 0xfffffffe, F, "'x/data/0': no local header at its offset"},
    {0, CENTRAL, 1, 42, 4, 1, F, "'x/data/0': no local header at its offset"},
    {0, CENTRAL, 1, 42, 4, 0, F, "'x/data/0': another name in its local header"},
    {0, CENTRAL, 2, 28, 2, 0xffff, F, "reaches past its end"},
    {0, CENTRAL, 2, 28, 2, 8, F, "'x/versio': another name"},
    {0, CENTRAL, 2, 32, 2, 1, F, "reaches past its end"},
    {0, CENTRAL, 0, 46, 1, 'y', F, "'y/data.pkl': another name in its local header"},
    {0, LOCAL, 1, 0, 4, 0x02014b50, F, "'x/data/0': no local header at its offset"},
    {0, LOCAL, 1, 26, 2, 7, F, "'x/data/0': another name in its local header"},
    {0, LOCAL, 1, 30, 1, 'y', F, "'x/data/0': another name in its local header"},
    {0, LOCAL, 1, 28, 2, 0xffff, F, "'x/data/0': its data reach past the end"},
    {0, LOCAL, 0, 28, 2, 25, F, "'x/data/0': overlaps another entry"},
    {1, END64, 0, 0, 4, 0, F, "no zip64 end record at offset"},
    {1, LOCATOR, 0, 8, 8, 0, F, "no zip64 end record at offset 0"},
    {1, LOCATOR, 0, 8, 8, UINT64_MAX, F, "no zip64 end record at offset 18446744073709551615"},
    {2, LOCATOR, 0, 0, 4, 0, F, "does not lie before offset"},
    {1, END64, 0, 32, 8, 4, F, "the zip64 and the plain end record differ"},
    {1, END64, 0, 40, 8, 1, F, "the zip64 and the plain end record differ"},
    {1, END64, 0, 48, 8, 1, F, "the zip64 and the plain end record differ"},
    {2, END64, 0, 32, 8, UINT64_MAX, U, "expected at most 131072 entries"},
    {2, END64, 0, 32, 8, 131073, U, "expected at most 131072 entries, found 131073"},
    {2, END64, 0, 40, 8, UINT64_MAX, F, "18446744073709551615 bytes at offset"},
    {2, END64, 0, 48, 8, UINT64_MAX, F, "at offset 18446744073709551615 does not lie"},
    {1, CENTRAL, 0, 30, 2, 4, F, "zip64 extra field is absent"},
    {1, CENTRAL, 0, 58, 2, 0xffff, F, "zip64 extra field is absent or short"}, /* other field */
    {1, CENTRAL, 0, 62, 2, 2, F, "zip64 extra field is absent or short"},
    {1, CENTRAL, 0, 64, 2, 16, F, "zip64 extra field is absent or short"},
    {1, CENTRAL, 0, 66, 8, UINT64_MAX, F, "stored size and size differ"},
    {1, CENTRAL, 0, 82, 8, UINT64_MAX, F, "no local header at its offset"},
    {1, CENTRAL, 0, 82, 8, UINT64_MAX - 29, F, "no local header at its offset"},
};

static size_t place_of(int record, int entry)
{
    switch (record) {
    case START:
        return 0;
    case LOCAL:
        return zip.local[entry];
    case CENTRAL:
        return zip.central[entry];
    case END:
        return zip.end;
    case END64:
        return zip.end64;
    default:
        return zip.locator;
    }
}

START_TEST(a_spoiled_zip_record_is_refused_with_its_own_message)
{
    int wide = bad_zip[_i].wide;
    make_archive(&zip, "P2 } 'w' " T8 " s .", 8);
    zip.wide = wide ? 7 : 0;
    make_end(&zip, wide != 0);
    if (wide == 2) memset(zip.out.data + zip.end + 10, 0xff, 10);
    must(parse(zip.out.data, zip.out.n), err);
    uint8_t *p =
        zip.out.data + place_of(bad_zip[_i].record, bad_zip[_i].entry) + bad_zip[_i].field;
    for (int k = 0; k < bad_zip[_i].width; k++) p[k] = (uint8_t)(bad_zip[_i].value >> 8 * k);
    must_fail(parse(zip.out.data, zip.out.n), bad_zip[_i].status, err, bad_zip[_i].says);
    make_free(&zip.out);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pth_hostile");
    TCase *tc = tcase_create("pth_hostile");
    tcase_add_loop_test(tc,
                        a_bad_pickle_is_refused_with_its_own_message,
                        0,
                        (int)(sizeof bad_pickle / sizeof *bad_pickle));
    tcase_add_loop_test(tc,
                        a_spoiled_zip_record_is_refused_with_its_own_message,
                        0,
                        (int)(sizeof bad_zip / sizeof *bad_zip));
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
