noinst_HEADERS += \
	%D%/base.h \
	%D%/file.h \
	%D%/pool.h \
	%D%/random.h

libkvref_a_SOURCES += \
	%D%/compare.c \
	%D%/io.c \
	%D%/noise.c \
	%D%/pool.c \
	%D%/random.c \
	%D%/sample.c \
	%D%/status.c
