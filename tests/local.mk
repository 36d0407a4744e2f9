check_LIBRARIES += %D%/libsupport.a
%C%_libsupport_a_SOURCES = %D%/support.c %D%/support.h \
	%D%/run.c %D%/run.h %D%/scene.c %D%/scene.h %D%/world.c %D%/world.h
%C%_libsupport_a_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)

AM_TESTS_ENVIRONMENT = srcdir='$(srcdir)'; top_builddir='$(top_builddir)'; \
	OPENBLAS_NUM_THREADS=1; CK_DEFAULT_TIMEOUT=120; \
	ASAN_OPTIONS=allocator_may_return_null=1:handle_segv=0; export ASAN_OPTIONS CK_DEFAULT_TIMEOUT srcdir top_builddir OPENBLAS_NUM_THREADS;
# GNU ld's --wrap: a program sees every allocation of the library.
alloc = %D%/alloc.c %D%/alloc.h
ALLOC_WRAP = $(AM_LDFLAGS) \
	-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup,--wrap=strndup
TEST_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
TEST_LIBS = %D%/libsupport.a $(KVREF_LIBS) $(CHECK_LIBS)

check_PROGRAMS += %D%/test_fmath
%C%_test_fmath_SOURCES = %D%/test_fmath.c
%C%_test_fmath_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_fmath_LDADD = $(TEST_LIBS)

# The program, by shell. Needs nothing but what is built here.
EXTRA_DIST += \
	%D%/hostile/archives.py \
	%D%/hostile/files.py \
	%D%/hostile/inputs.py \
	%D%/hostile/make.py \
	%D%/hostile/run.py \
	%D%/hostile/texts.py \
	%D%/hostile/weights.py \
	%D%/page_check.py \
	%D%/tool_lib.sh
dist_check_SCRIPTS += \
	%D%/test_hostile.sh \
	%D%/test_tool_bench.sh \
	%D%/test_tool_codec.sh \
	%D%/test_tool_files.sh \
	%D%/test_tool_compare.sh \
	%D%/test_tool_compare_page.sh \
	%D%/test_tool_generate.sh \
	%D%/test_tool_gpu.sh \
	%D%/test_tool_gpu_day.sh \
	%D%/test_tool_inspect.sh \
	%D%/test_tool_make_model.sh \
	%D%/test_tool_options.sh \
	%D%/test_tool_say.sh \
	%D%/test_tool_trace.sh

check_PROGRAMS += %D%/test_bench
%C%_test_bench_SOURCES = %D%/test_bench.c tools/bench_stats.c
%C%_test_bench_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_bench_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_half
%C%_test_half_SOURCES = %D%/test_half.c
%C%_test_half_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_half_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_base
%C%_test_base_SOURCES = %D%/test_base.c
%C%_test_base_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_base_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_noise
%C%_test_noise_SOURCES = %D%/test_noise.c
%C%_test_noise_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_noise_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_noise_file
%C%_test_noise_file_SOURCES = %D%/test_noise_file.c
%C%_test_noise_file_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_noise_file_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_sample
%C%_test_sample_SOURCES = %D%/test_sample.c
%C%_test_sample_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_sample_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_compare
%C%_test_compare_SOURCES = %D%/test_compare.c
%C%_test_compare_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_compare_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_diff
%C%_test_diff_SOURCES = %D%/test_diff.c %D%/trace_make.h
%C%_test_diff_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_diff_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_diff_hint
%C%_test_diff_hint_SOURCES = %D%/test_diff_hint.c %D%/trace_make.h
%C%_test_diff_hint_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_diff_hint_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_diff_parts
%C%_test_diff_parts_SOURCES = %D%/test_diff_parts.c %D%/trace_make.h
%C%_test_diff_parts_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_diff_parts_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_diff_rows
%C%_test_diff_rows_SOURCES = %D%/test_diff_rows.c %D%/trace_make.h
%C%_test_diff_rows_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_diff_rows_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_limits
%C%_test_limits_SOURCES = %D%/test_limits.c
%C%_test_limits_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_limits_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_codes
%C%_test_codes_SOURCES = %D%/test_codes.c %D%/npy_make.h
%C%_test_codes_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_codes_LDADD = $(TEST_LIBS)

dist_check_SCRIPTS += \
	%D%/test_golden_sums.sh \
	%D%/test_oracle.sh

check_PROGRAMS += %D%/test_safetensors
%C%_test_safetensors_SOURCES = %D%/test_safetensors.c
%C%_test_safetensors_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_safetensors_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_safetensors_cost
%C%_test_safetensors_cost_SOURCES = %D%/test_safetensors_cost.c
%C%_test_safetensors_cost_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_safetensors_cost_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_shards
%C%_test_shards_SOURCES = %D%/test_shards.c
%C%_test_shards_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_shards_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_tokenizer_full
%C%_test_tokenizer_full_SOURCES = %D%/test_tokenizer_full.c
%C%_test_tokenizer_full_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_tokenizer_full_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_tokenizer
%C%_test_tokenizer_SOURCES = %D%/test_tokenizer.c %D%/small_tokenizer.h
%C%_test_tokenizer_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_tokenizer_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_pretoken
%C%_test_pretoken_SOURCES = %D%/test_pretoken.c
%C%_test_pretoken_CPPFLAGS = $(TEST_CPPFLAGS) $(PCRE2_CFLAGS)
%C%_test_pretoken_LDADD = $(TEST_LIBS) $(PCRE2_LIBS)

check_PROGRAMS += %D%/test_pth_golden
%C%_test_pth_golden_SOURCES = %D%/test_pth_golden.c
%C%_test_pth_golden_CPPFLAGS = $(TEST_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_test_pth_golden_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_config
%C%_test_config_SOURCES = %D%/test_config.c
%C%_test_config_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_config_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_synth
%C%_test_synth_SOURCES = %D%/test_synth.c
%C%_test_synth_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_synth_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_audio
%C%_test_audio_SOURCES = %D%/test_audio.c
%C%_test_audio_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_audio_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_audio_cut
%C%_test_audio_cut_SOURCES = %D%/test_audio_cut.c
%C%_test_audio_cut_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_audio_cut_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_trace
%C%_test_trace_SOURCES = %D%/test_trace.c
%C%_test_trace_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_trace_LDADD = $(TEST_LIBS)

# The codec.
codec_toy = %D%/codec_toy.c %D%/codec_toy.h

check_PROGRAMS += %D%/test_codec_golden
%C%_test_codec_golden_SOURCES = %D%/test_codec_golden.c $(codec_toy)
%C%_test_codec_golden_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_codec_golden_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_batches
%C%_test_batches_SOURCES = %D%/test_batches.c
%C%_test_batches_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_batches_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_prompt
%C%_test_prompt_SOURCES = %D%/test_prompt.c %D%/small_tokenizer.h
%C%_test_prompt_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_prompt_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_prompt_refused
%C%_test_prompt_refused_SOURCES = %D%/test_prompt_refused.c %D%/small_tokenizer.h
%C%_test_prompt_refused_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_prompt_refused_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_generate
%C%_test_generate_SOURCES = %D%/test_generate.c %D%/fake.c %D%/fake.h
%C%_test_generate_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_generate_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_generate_draws
%C%_test_generate_draws_SOURCES = %D%/test_generate_draws.c %D%/fake.c %D%/fake.h
%C%_test_generate_draws_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_generate_draws_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_generate_faults
%C%_test_generate_faults_SOURCES = %D%/test_generate_faults.c $(alloc) %D%/fake.c %D%/fake.h
%C%_test_generate_faults_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_generate_faults_LDFLAGS = $(ALLOC_WRAP)
%C%_test_generate_faults_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_generate_golden
%C%_test_generate_golden_SOURCES = %D%/test_generate_golden.c
%C%_test_generate_golden_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_generate_golden_LDADD = $(TEST_LIBS)
# The reference decoder.
check_PROGRAMS += %D%/test_linear
%C%_test_linear_SOURCES = %D%/test_linear.c
%C%_test_linear_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_linear_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_rope
%C%_test_rope_SOURCES = %D%/test_rope.c
%C%_test_rope_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_rope_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_rmsnorm
%C%_test_rmsnorm_SOURCES = %D%/test_rmsnorm.c
%C%_test_rmsnorm_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_rmsnorm_LDADD = $(TEST_LIBS)
check_PROGRAMS += %D%/test_model
%C%_test_model_SOURCES = %D%/test_model.c %D%/checkpoint.h
%C%_test_model_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_model_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_model_ids
%C%_test_model_ids_SOURCES = %D%/test_model_ids.c %D%/checkpoint.h
%C%_test_model_ids_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_model_ids_LDADD = $(TEST_LIBS)
check_PROGRAMS += %D%/test_tokenizer_file
%C%_test_tokenizer_file_SOURCES = %D%/test_tokenizer_file.c %D%/small_tokenizer.h
%C%_test_tokenizer_file_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_tokenizer_file_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_attention
%C%_test_attention_SOURCES = %D%/test_attention.c
%C%_test_attention_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_attention_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_decoder
%C%_test_decoder_SOURCES = %D%/test_decoder.c
%C%_test_decoder_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_decoder_LDADD = $(TEST_LIBS)
check_PROGRAMS += %D%/test_pth
%C%_test_pth_SOURCES = %D%/test_pth.c %D%/pth_make.c %D%/pth_make.h
%C%_test_pth_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_pth_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_pth_hostile
%C%_test_pth_hostile_SOURCES = %D%/test_pth_hostile.c %D%/pth_make.c %D%/pth_make.h
%C%_test_pth_hostile_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_pth_hostile_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_pth_archive
%C%_test_pth_archive_SOURCES = %D%/test_pth_archive.c %D%/pth_make.c %D%/pth_make.h
%C%_test_pth_archive_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_pth_archive_LDADD = $(TEST_LIBS)
check_PROGRAMS += %D%/test_codec_stream
%C%_test_codec_stream_SOURCES = %D%/test_codec_stream.c $(alloc) $(codec_toy)
%C%_test_codec_stream_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_codec_stream_LDFLAGS = $(ALLOC_WRAP)
%C%_test_codec_stream_LDADD = $(TEST_LIBS)

# Not a test: `make tests/bench_codec`, then see its first comment.
EXTRA_PROGRAMS += %D%/bench_codec
%C%_bench_codec_SOURCES = %D%/bench_codec.c
%C%_bench_codec_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_bench_codec_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_synth_files
%C%_test_synth_files_SOURCES = %D%/test_synth_files.c %D%/synth_make.h
%C%_test_synth_files_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_synth_files_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_synth_memory
%C%_test_synth_memory_SOURCES = %D%/test_synth_memory.c $(alloc)
%C%_test_synth_memory_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_synth_memory_LDFLAGS = $(ALLOC_WRAP)
%C%_test_synth_memory_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_synth_refusals
%C%_test_synth_refusals_SOURCES = %D%/test_synth_refusals.c %D%/synth_make.h
%C%_test_synth_refusals_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_synth_refusals_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_synth_tokenizer
%C%_test_synth_tokenizer_SOURCES = %D%/test_synth_tokenizer.c
%C%_test_synth_tokenizer_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_synth_tokenizer_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_golden_lm
%C%_test_golden_lm_SOURCES = %D%/test_golden_lm.c %D%/golden.c %D%/golden.h
%C%_test_golden_lm_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_golden_lm_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_golden_c
%C%_test_golden_c_SOURCES = %D%/test_golden_c.c %D%/golden.c %D%/golden.h
%C%_test_golden_c_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_golden_c_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_trace_hash
%C%_test_trace_hash_SOURCES = %D%/test_trace_hash.c %D%/golden.c %D%/golden.h
%C%_test_trace_hash_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_trace_hash_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_decoder_calls
%C%_test_decoder_calls_SOURCES = %D%/test_decoder_calls.c
%C%_test_decoder_calls_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_decoder_calls_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_decoder_cost
%C%_test_decoder_cost_SOURCES = %D%/test_decoder_cost.c $(alloc)
%C%_test_decoder_cost_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_decoder_cost_LDFLAGS = $(ALLOC_WRAP) -Wl,--wrap=mmap
%C%_test_decoder_cost_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_taps
%C%_test_taps_SOURCES = %D%/test_taps.c
%C%_test_taps_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_taps_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_no_memory
%C%_test_no_memory_SOURCES = %D%/test_no_memory.c $(alloc) %D%/checkpoint.h %D%/trace_make.h
%C%_test_no_memory_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_no_memory_LDFLAGS = $(ALLOC_WRAP)
%C%_test_no_memory_LDADD = $(TEST_LIBS)
check_PROGRAMS += %D%/test_tokenizer_json
%C%_test_tokenizer_json_SOURCES = %D%/test_tokenizer_json.c %D%/small_tokenizer.h
%C%_test_tokenizer_json_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_tokenizer_json_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_text_memory
%C%_test_text_memory_SOURCES = %D%/test_text_memory.c $(alloc) %D%/small_tokenizer.h
%C%_test_text_memory_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_text_memory_LDFLAGS = $(ALLOC_WRAP)
%C%_test_text_memory_LDADD = $(TEST_LIBS)
check_PROGRAMS += %D%/test_codec_books
%C%_test_codec_books_SOURCES = %D%/test_codec_books.c $(codec_toy)
%C%_test_codec_books_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_codec_books_LDADD = $(TEST_LIBS)
check_PROGRAMS += %D%/test_codec_numbering
%C%_test_codec_numbering_SOURCES = %D%/test_codec_numbering.c $(codec_toy)
%C%_test_codec_numbering_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_codec_numbering_LDADD = $(TEST_LIBS)
check_PROGRAMS += %D%/test_codec_sizes
%C%_test_codec_sizes_SOURCES = %D%/test_codec_sizes.c $(codec_toy)
%C%_test_codec_sizes_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_codec_sizes_LDADD = $(TEST_LIBS)
check_PROGRAMS += %D%/test_codec_memory
%C%_test_codec_memory_SOURCES = %D%/test_codec_memory.c $(alloc) $(codec_toy)
%C%_test_codec_memory_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_codec_memory_LDFLAGS = $(ALLOC_WRAP)
%C%_test_codec_memory_LDADD = $(TEST_LIBS)
check_PROGRAMS += %D%/test_codec_load
%C%_test_codec_load_SOURCES = %D%/test_codec_load.c $(codec_toy)
%C%_test_codec_load_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_codec_load_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_codec_conv
%C%_test_codec_conv_SOURCES = %D%/test_codec_conv.c $(codec_toy)
%C%_test_codec_conv_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_codec_conv_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_codec_ops
%C%_test_codec_ops_SOURCES = %D%/test_codec_ops.c $(codec_toy)
%C%_test_codec_ops_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_codec_ops_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_resample
%C%_test_resample_SOURCES = %D%/test_resample.c
%C%_test_resample_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_resample_LDADD = $(TEST_LIBS)
check_PROGRAMS += %D%/test_formula
%C%_test_formula_SOURCES = %D%/test_formula.c
%C%_test_formula_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_formula_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_codec_weights
%C%_test_codec_weights_SOURCES = %D%/test_codec_weights.c $(codec_toy)
%C%_test_codec_weights_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_codec_weights_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_mutants
%C%_test_mutants_SOURCES = %D%/test_mutants.c %D%/golden.c %D%/golden.h
%C%_test_mutants_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_mutants_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_narrow
%C%_test_narrow_SOURCES = %D%/test_narrow.c
%C%_test_narrow_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_narrow_LDADD = $(TEST_LIBS)

# The decoder in float16: see ref/local.mk for $(ref16).
check_PROGRAMS += %D%/test_half_ref
%C%_test_half_ref_SOURCES = %D%/test_half_ref.c %D%/half_math.h $(narrowed)
%C%_test_half_ref_CPPFLAGS = $(TEST_CPPFLAGS) -DREF_ROUND_F16
%C%_test_half_ref_LDADD = $(ref16) $(TEST_LIBS)
narrowed = %D%/narrowed.c %D%/narrowed.h
# C++: they launch kernels themselves.
CUDACPU_LIBS = %D%/libsupport.a libkvref_cudacpu.a $(KVREF_LIBS) $(CHECK_LIBS)
check_PROGRAMS += %D%/test_cudacpu
%C%_test_cudacpu_SOURCES = %D%/test_cudacpu.cc
%C%_test_cudacpu_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_cudacpu_LDADD = $(CUDACPU_LIBS)

check_PROGRAMS += %D%/test_cudacpu_host
%C%_test_cudacpu_host_SOURCES = %D%/test_cudacpu_host.cc
%C%_test_cudacpu_host_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_cudacpu_host_LDADD = $(CUDACPU_LIBS)

tape = %D%/ref64.c %D%/ref64.h %D%/tape.c %D%/tape.h
check_PROGRAMS += %D%/test_ref64
%C%_test_ref64_SOURCES = %D%/test_ref64.c $(tape)
%C%_test_ref64_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_ref64_LDADD = $(TEST_LIBS)

check_PROGRAMS += %D%/test_half_f64
%C%_test_half_f64_SOURCES = %D%/test_half_f64.c $(narrowed) $(tape) %D%/golden.c %D%/golden.h
%C%_test_half_f64_CPPFLAGS = $(TEST_CPPFLAGS) -DREF_ROUND_F16
%C%_test_half_f64_LDADD = $(ref16) $(TEST_LIBS)

check_PROGRAMS += %D%/test_gpu_attention
%C%_test_gpu_attention_SOURCES = %D%/test_gpu_attention.cc %D%/attend.cc %D%/attend.h
%C%_test_gpu_attention_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_gpu_attention_LDADD = $(CUDACPU_LIBS)

check_PROGRAMS += %D%/test_gpu_sample
%C%_test_gpu_sample_SOURCES = %D%/test_gpu_sample.cc %D%/draws.cc %D%/draws.h
%C%_test_gpu_sample_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_gpu_sample_LDADD = $(CUDACPU_LIBS)

check_PROGRAMS += %D%/test_gpu_linear
%C%_test_gpu_linear_SOURCES = %D%/test_gpu_linear.cc %D%/gpu_host.h
%C%_test_gpu_linear_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_gpu_linear_LDADD = $(CUDACPU_LIBS)

check_PROGRAMS += %D%/test_gpu_norm
%C%_test_gpu_norm_SOURCES = %D%/test_gpu_norm.cc %D%/gpu_host.h
%C%_test_gpu_norm_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_gpu_norm_LDADD = $(CUDACPU_LIBS)

check_PROGRAMS += %D%/test_gpu_ops
%C%_test_gpu_ops_SOURCES = %D%/test_gpu_ops.cc %D%/gpu_host.h
%C%_test_gpu_ops_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_gpu_ops_LDADD = $(CUDACPU_LIBS)

check_PROGRAMS += %D%/test_half_steps
%C%_test_half_steps_SOURCES = %D%/test_half_steps.c %D%/half_math.h $(narrowed) $(tape)
%C%_test_half_steps_CPPFLAGS = $(TEST_CPPFLAGS) -DREF_ROUND_F16
%C%_test_half_steps_LDADD = $(ref16) $(TEST_LIBS)
# Planted kernels, plain and as a race build; neither with sanitizers, which would catch some first.
cudacpu_planted = %D%/cudacpu_calls_cpu.cc %D%/cudacpu_clean_cpu.cc %D%/cudacpu_memory_cpu.cc \
	%D%/cudacpu_sync_cpu.cc
EXTRA_DIST += %D%/cudacpu_calls.cu %D%/cudacpu_clean.cu %D%/cudacpu_memory.cu %D%/cudacpu_sync.cu
noinst_HEADERS += %D%/cudacpu_faults.h %D%/cudacpu_rig.h
check_LIBRARIES += %D%/libplanted.a
%C%_libplanted_a_SOURCES = $(cudacpu_planted)
%C%_libplanted_a_CXXFLAGS = $(CXX_BASE_FLAGS)

check_PROGRAMS += %D%/test_cudacpu_faults
%C%_test_cudacpu_faults_SOURCES = %D%/test_cudacpu_faults.c
%C%_test_cudacpu_faults_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_cudacpu_faults_LDADD = %D%/libplanted.a $(CUDACPU_LIBS)

if HAVE_RACE_BUILD
CUDACPU_RACE_LIBS = %D%/libsupport.a libkvref_cudacpu_race.a $(KVREF_LIBS) $(CHECK_LIBS)
check_LIBRARIES += %D%/libplanted_race.a
%C%_libplanted_race_a_SOURCES = $(cudacpu_planted)
%C%_libplanted_race_a_CXXFLAGS = $(RACE_CXXFLAGS)
$(%C%_libplanted_race_a_OBJECTS): CXXFLAGS = $(RACE_OPTIMISE)

check_PROGRAMS += %D%/test_cudacpu_race
%C%_test_cudacpu_race_SOURCES = %D%/test_cudacpu_faults.c
%C%_test_cudacpu_race_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_cudacpu_race_LDADD = %D%/libplanted_race.a $(CUDACPU_RACE_LIBS)

# The kernels of test_cudacpu, watched: nothing may be reported.
check_PROGRAMS += %D%/test_cudacpu_watched
%C%_test_cudacpu_watched_SOURCES = %D%/test_cudacpu.cc
%C%_test_cudacpu_watched_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_cudacpu_watched_CXXFLAGS = $(RACE_CXXFLAGS)
%C%_test_cudacpu_watched_LDADD = $(CUDACPU_RACE_LIBS)
$(%C%_test_cudacpu_watched_OBJECTS): CXXFLAGS = $(RACE_OPTIMISE)

# And those of attention, by its tests.
check_PROGRAMS += %D%/test_gpu_attention_watched
%C%_test_gpu_attention_watched_SOURCES = $(%C%_test_gpu_attention_SOURCES)
%C%_test_gpu_attention_watched_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_gpu_attention_watched_LDADD = $(CUDACPU_RACE_LIBS)
endif
# The FP16 decoder on the execution layer, beside its emulation.
GPU_LIBS = libkvref_cudacpu.a $(TEST_LIBS)
check_PROGRAMS += %D%/test_gpu_decoder
%C%_test_gpu_decoder_SOURCES = %D%/test_gpu_decoder.c %D%/gpu_run.c %D%/gpu_run.h \
	$(narrowed)
%C%_test_gpu_decoder_CPPFLAGS = $(TEST_CPPFLAGS) -DREF_ROUND_F16
%C%_test_gpu_decoder_LDADD = $(ref16) $(GPU_LIBS)
check_PROGRAMS += %D%/test_gpu_calls
%C%_test_gpu_calls_SOURCES = %D%/test_gpu_calls.c
%C%_test_gpu_calls_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_gpu_calls_LDADD = $(GPU_LIBS)
check_PROGRAMS += %D%/test_gpu_golden
%C%_test_gpu_golden_SOURCES = %D%/test_gpu_golden.c %D%/gpu_run.c %D%/gpu_run.h $(narrowed) \
	%D%/golden.c %D%/golden.h
%C%_test_gpu_golden_CPPFLAGS = $(TEST_CPPFLAGS) -DREF_ROUND_F16
%C%_test_gpu_golden_LDADD = $(ref16) $(GPU_LIBS)
if HAVE_RACE_BUILD
# The same with every access of the kernels watched; what it reports aborts.
GPU_RACE_LIBS = libkvref_cudacpu_race.a $(TEST_LIBS)
check_PROGRAMS += %D%/test_gpu_decoder_watched
%C%_test_gpu_decoder_watched_SOURCES = %D%/test_gpu_decoder.c %D%/gpu_run.c %D%/gpu_run.h \
	$(narrowed)
%C%_test_gpu_decoder_watched_CPPFLAGS = $(TEST_CPPFLAGS) -DREF_ROUND_F16
%C%_test_gpu_decoder_watched_LDADD = $(ref16) $(GPU_RACE_LIBS)
check_PROGRAMS += %D%/test_gpu_calls_watched
%C%_test_gpu_calls_watched_SOURCES = %D%/test_gpu_calls.c
%C%_test_gpu_calls_watched_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_gpu_calls_watched_LDADD = $(GPU_RACE_LIBS)

check_PROGRAMS += %D%/test_gpu_linear_watched
%C%_test_gpu_linear_watched_SOURCES = $(%C%_test_gpu_linear_SOURCES)
%C%_test_gpu_linear_watched_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_gpu_linear_watched_LDADD = $(CUDACPU_RACE_LIBS)

check_PROGRAMS += %D%/test_gpu_norm_watched
%C%_test_gpu_norm_watched_SOURCES = $(%C%_test_gpu_norm_SOURCES)
%C%_test_gpu_norm_watched_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_gpu_norm_watched_LDADD = $(CUDACPU_RACE_LIBS)

check_PROGRAMS += %D%/test_gpu_ops_watched
%C%_test_gpu_ops_watched_SOURCES = $(%C%_test_gpu_ops_SOURCES)
%C%_test_gpu_ops_watched_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_gpu_ops_watched_LDADD = $(CUDACPU_RACE_LIBS)

check_PROGRAMS += %D%/test_gpu_tail
%C%_test_gpu_tail_SOURCES = %D%/test_gpu_tail.c
%C%_test_gpu_tail_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_gpu_tail_LDADD = $(GPU_RACE_LIBS)
check_PROGRAMS += %D%/test_gpu_traffic
%C%_test_gpu_traffic_SOURCES = %D%/test_gpu_traffic.c
%C%_test_gpu_traffic_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_gpu_traffic_LDADD = $(GPU_RACE_LIBS)
endif
if WITH_CUDA
check_PROGRAMS += %D%/test_cuda
%C%_test_cuda_SOURCES = %D%/test_cuda.c %D%/gpu_run.c %D%/gpu_run.h
%C%_test_cuda_CPPFLAGS = $(TEST_CPPFLAGS)
%C%_test_cuda_LDADD = $(cuda_library) $(GPU_LIBS) $(CUDA_LIBS)
endif
