noinst_HEADERS += \
	%D%/clones.h \
	%D%/codec.h

libkvref_a_SOURCES += \
	%D%/codec.c \
	%D%/codec_books.c \
	%D%/codec_conv.c \
	%D%/codec_decode.c \
	%D%/codec_encode.c \
	%D%/codec_exact.c \
	%D%/codec_flow.c \
	%D%/codec_fold.c \
	%D%/codec_layers.c \
	%D%/codec_load.c \
	%D%/codec_math.c \
	%D%/codec_parts.c \
	%D%/codec_setup.c \
	%D%/codec_stack.c \
	%D%/codec_window.c \
	%D%/resample.c
