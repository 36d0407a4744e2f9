bin_PROGRAMS += %D%/kvref
%C%_kvref_SOURCES = %D%/kvref.c
%C%_kvref_LDADD = $(KVREF_LIBS)
