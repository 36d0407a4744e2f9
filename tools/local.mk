bin_PROGRAMS += %D%/kvref
%C%_kvref_SOURCES = \
	%D%/blas_core.c \
	%D%/blas_core.h \
	%D%/cli.c \
	%D%/cli.h \
	%D%/cli_help.c \
	%D%/cli_value.c \
	%D%/cli_value.h \
	%D%/cmd_decode.c \
	%D%/cmd_doctor.c \
	%D%/cmd_encode.c \
	%D%/cmd_generate.c \
	%D%/cmd_inspect.c \
	%D%/cmd_make_model.c \
	%D%/cmd_say.c \
	%D%/cmd_trace.c \
	%D%/codec_args.c \
	%D%/codec_args.h \
	%D%/commands.h \
	%D%/frames_io.c \
	%D%/frames_io.h \
	%D%/inspect.h \
	%D%/inspect_codec.c \
	%D%/inspect_print.c \
	%D%/inspect_range.c \
	%D%/inspect_tensors.c \
	%D%/kvref.c \
	%D%/make_codec.c \
	%D%/make_codec.h \
	%D%/paths.c \
	%D%/paths.h \
	%D%/presets.c \
	%D%/presets.h \
	%D%/replay.c \
	%D%/replay.h \
	%D%/report.c \
	%D%/report.h \
	%D%/selftest.c \
	%D%/selftest.h \
	%D%/session.c \
	%D%/session.h \
	%D%/session_options.c \
	%D%/session_text.c \
	%D%/sound_in.c \
	%D%/sound_in.h \
	%D%/sound_out.c \
	%D%/sound_out.h \
	%D%/speak.c \
	%D%/speak.h \
	%D%/term.c \
	%D%/term.h
%C%_kvref_LDADD = $(KVREF_LIBS)
EXTRA_DIST += %D%/hello.sha256
