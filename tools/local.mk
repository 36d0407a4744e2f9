bin_PROGRAMS += %D%/kvref
%C%_kvref_SOURCES = \
	%D%/blas_core.c \
	%D%/blas_core.h \
	%D%/cli.c \
	%D%/cli.h \
	%D%/cli_help.c \
	%D%/cmd_doctor.c \
	%D%/commands.h \
	%D%/kvref.c \
	%D%/selftest.c \
	%D%/selftest.h \
	%D%/term.c \
	%D%/term.h
%C%_kvref_LDADD = $(KVREF_LIBS)
