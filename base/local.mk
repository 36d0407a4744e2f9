noinst_HEADERS += \
	%D%/base.h \
	%D%/config.h \
	%D%/file.h \
	%D%/json.h \
	%D%/npy.h \
	%D%/pickle.h \
	%D%/pool.h \
	%D%/pth.h \
	%D%/pth_write.h \
	%D%/prompt.h \
	%D%/random.h \
	%D%/synth.h \
	%D%/tokenizer.h \
	%D%/zip.h
	%D%/trace.h

libkvref_a_SOURCES += \
	%D%/added.c \
	%D%/batches.c \
	%D%/bpe.c \
	%D%/audio_in.c \
	%D%/audio_out.c \
	%D%/codes.c \
	%D%/compare.c \
	%D%/config.c \
	%D%/fields.c \
	%D%/file.c \
	%D%/io.c \
	%D%/json.c \
	%D%/nfc.c \
	%D%/noise.c \
	%D%/npy.c \
	%D%/pickle.c \
	%D%/pickle_call.c \
	%D%/pool.c \
	%D%/pretoken.c \
	%D%/prompt.c \
	%D%/pth.c \
	%D%/pth_tensor.c \
	%D%/pth_write.c \
	%D%/random.c \
	%D%/safetensors.c \
	%D%/sample.c \
	%D%/shards.c \
	%D%/status.c \
	%D%/synth.c \
	%D%/synth_config.c \
	%D%/synth_tokenizer.c \
	%D%/synth_values.c \
	%D%/synth_codec.c \
	%D%/synth_codec_write.c \
	%D%/tokenizer.c \
	%D%/tokenizer_load.c \
	%D%/tokenizer_merges.c \
	%D%/tokenizer_rules.c \
	%D%/trace.c \
	%D%/trace_write.c \
	%D%/writer.c \
	%D%/zip.c
