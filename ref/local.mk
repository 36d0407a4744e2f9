noinst_HEADERS += \
	%D%/clones.h \
	%D%/codec.h \
	%D%/lanes.h \
	%D%/ref.h

EXTRA_DIST += %D%/README.md

libkvref_a_SOURCES += \
	%D%/attention.c \
	%D%/attention_books.c \
	%D%/attention_naive.c \
	%D%/attention_run.c \
	%D%/backend.c \
	%D%/blas.c \
	%D%/block.c \
	%D%/codec.c \
	%D%/codec_books.c \
	%D%/codec_conv.c \
	%D%/codec_decode.c \
	%D%/codec_encode.c \
	%D%/codec_flow.c \
	%D%/codec_fold.c \
	%D%/codec_layers.c \
	%D%/codec_load.c \
	%D%/codec_math.c \
	%D%/codec_parts.c \
	%D%/codec_setup.c \
	%D%/codec_share.c \
	%D%/codec_stack.c \
	%D%/codec_window.c \
	%D%/decoder.c \
	%D%/embed.c \
	%D%/fast.c \
	%D%/kv.c \
	%D%/layout.c \
	%D%/linear.c \
	%D%/linear_naive.c \
	%D%/resample.c \
	%D%/rmsnorm.c \
	%D%/rope.c \
	%D%/simd.c \
	%D%/slow.c \
	%D%/swiglu.c \
	%D%/tools.c

# The decoder once more, rounding to float16: the judge of gpu/ (README.md, "In float16").
# Its symbols are those of libkvref.a, so a test links it by $(ref16), as objects: each of them is
# there whether wanted or not, and no member of libkvref.a can come in beside it.
check_LIBRARIES += libkvref_ref16.a
libkvref_ref16_a_CPPFLAGS = $(AM_CPPFLAGS) -DREF_ROUND_F16
libkvref_ref16_a_SOURCES = \
	%D%/attention.c \
	%D%/attention_books.c \
	%D%/attention_naive.c \
	%D%/attention_run.c \
	%D%/backend.c \
	%D%/blas.c \
	%D%/block.c \
	%D%/decoder.c \
	%D%/embed.c \
	%D%/fast.c \
	%D%/kv.c \
	%D%/layout.c \
	%D%/linear.c \
	%D%/linear_naive.c \
	%D%/rmsnorm.c \
	%D%/rope.c \
	%D%/simd_naive.c \
	%D%/slow.c \
	%D%/swiglu.c \
	%D%/tools.c
ref16 = $(libkvref_ref16_a_OBJECTS)
