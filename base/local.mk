noinst_HEADERS += \
	%D%/base.h \
	%D%/file.h \
	%D%/json.h \
	%D%/npy.h \
	%D%/pool.h \
	%D%/random.h

libkvref_a_SOURCES += \
	%D%/codes.c \
	%D%/compare.c \
	%D%/file.c \
	%D%/io.c \
	%D%/json.c \
	%D%/noise.c \
	%D%/npy.c \
	%D%/pool.c \
	%D%/pth.c \
	%D%/random.c \
	%D%/safetensors.c \
	%D%/sample.c \
	%D%/shards.c \
	%D%/status.c \
	%D%/writer.c
