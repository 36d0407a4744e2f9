golden_data = \
	%D%/MANIFEST.json \
	%D%/SHA256SUMS \
	%D%/codec/codec.safetensors \
	%D%/codec/golden-codec.json \
	%D%/lm/A.json \
	%D%/lm/A.safetensors \
	%D%/lm/B.json \
	%D%/lm/B.safetensors \
	%D%/lm/C.json \
	%D%/lm/C.safetensors \
	%D%/lm/D.json \
	%D%/lm/D.safetensors \
	%D%/lm/L.json \
	%D%/lm/L.safetensors \
	%D%/lm/golden-lm.json \
	%D%/lm/hashes.txt \
	%D%/tokenizer/small-vectors.json \
	%D%/tokenizer/small.json \
	%D%/pth/bad-byteorder.pth \
	%D%/pth/bad-deflated.pth \
	%D%/pth/bad-offset.pth \
	%D%/pth/bad-selfdict.pth \
	%D%/pth/bad-stride0.pth \
	%D%/pth/bad-truncated-pickle.pth \
	%D%/pth/bad-twopickles.pth \
	%D%/pth/evil.pth \
	%D%/pth/expected.json \
	%D%/pth/flat.pth \
	%D%/pth/generator.pth \
	%D%/pth/module.pth \
	%D%/pth/nested.pth \
	%D%/pth/newer.pth \
	%D%/pth/old.pth \
	%D%/pth/views.pth

EXTRA_DIST += $(golden_data) \
	%D%/README.md \
	%D%/formula.py \
	%D%/import_codec.py \
	%D%/import_upstream.py \
	%D%/manifest.py \
	%D%/oracle.py \
	%D%/tokenizer/make_small.py \
	%D%/pth/README.md

CLEANFILES += %D%/remade/codec/* %D%/remade/lm/* %D%/remade/tokenizer/*

# Makes again what can be made from the tree alone and compares; with the uncut upstream files at
# hand, imports them again as well. Nothing in the source tree changes.
golden:
	@set -e; PYTHONDONTWRITEBYTECODE=1; export PYTHONDONTWRITEBYTECODE; \
	from=$(srcdir)/%D%; to=%D%/remade; shared=$${KVREF_SHARED:-$(srcdir)/../shared}; \
	$(MKDIR_P) $$to/lm $$to/tokenizer; \
	$(PYTHON) $$from/tokenizer/make_small.py $$to/tokenizer; \
	for f in small.json small-vectors.json; do \
	  cmp $$from/tokenizer/$$f $$to/tokenizer/$$f; done; \
	$(PYTHON) $$from/oracle.py make $$from/lm/D.json $$to/lm/D.safetensors; \
	$(PYTHON) $$from/oracle.py diff $$from/lm/D.safetensors $$to/lm/D.safetensors; \
	if test -f $$shared/golden/upstream-A.safetensors; then \
	  $(PYTHON) $$from/import_upstream.py $$shared $$to; \
	  for f in A.json A.safetensors B.json B.safetensors C.json C.safetensors L.json \
	      L.safetensors golden-lm.json; do cmp $$from/lm/$$f $$to/lm/$$f; done; \
	  $(PYTHON) $$from/import_codec.py $$shared $$to; \
	  for f in codec.safetensors golden-codec.json; do cmp $$from/codec/$$f $$to/codec/$$f; done; \
	  echo "upstream's files: imported again, equal"; \
	fi

.PHONY: golden
