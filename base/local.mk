noinst_HEADERS += \
	%D%/base.h \
	%D%/file.h \
	%D%/pool.h

libkvref_a_SOURCES += \
	%D%/io.c \
	%D%/pool.c \
	%D%/status.c
