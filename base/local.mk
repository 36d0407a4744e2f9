noinst_HEADERS += \
	%D%/base.h \
	%D%/file.h \
	%D%/npy.h \
	%D%/pool.h \
	%D%/random.h

libkvref_a_SOURCES += \
	%D%/codes.c \
	%D%/compare.c \
	%D%/io.c \
	%D%/noise.c \
	%D%/npy.c \
	%D%/pool.c \
	%D%/random.c \
	%D%/sample.c \
	%D%/status.c
