pkginclude_HEADERS = \
	%D%/kvref/audio.h \
	%D%/kvref/backend.h \
	%D%/kvref/codec.h \
	%D%/kvref/compare.h \
	%D%/kvref/blas.h \
	%D%/kvref/file.h \
	%D%/kvref/fmath.h \
	%D%/kvref/generate.h \
	%D%/kvref/half.h \
	%D%/kvref/limits.h \
	%D%/kvref/model.h \
	%D%/kvref/prompt.h \
	%D%/kvref/sample.h \
	%D%/kvref/status.h \
	%D%/kvref/synth.h \
	%D%/kvref/synth_codec.h \
	%D%/kvref/tokenizer.h \
	%D%/kvref/trace.h
