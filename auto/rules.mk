# The rules of the build.  ./Makefile, written by auto/configure, sets what
# this machine decides and includes this file.
#
#   make               the launcher and the module, in objs/
#   make SANITIZE=1    the same under address and undefined-behaviour
#                      sanitizers, in objs-asan/
#   make unit          the unit tests, in objs/t/
#   make test          everything scripts/test runs
#   make nightly       the same with every test again under sanitizers, and
#                      make test-fresh, make soak and make fuzz
#   make test-fresh    scripts/quickstart and scripts/test in a bare Debian 12
#                      that is made for it, as root
#   make test-v2       what is tested in virtual machines with cgroup v2
#   make bench         what a box costs, beside plain spawn and bubblewrap
#   make soak          SOAK (10000) boxes, a tenth of them killed: what is left;
#                      COST (1000000) requests of each kind: what they cost
#   make fuzz          each fuzz target for FUZZ_SECONDS (60)
#   make install       DESTDIR= and prefix= are honoured
#   make lint          what cppcheck, clang-tidy and the compiler's further
#                      warnings find: nothing
#   make clean
#
# V=1 shows the commands.

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:

SANITIZE ?= 0
FUZZ_SECONDS ?= 60
prefix ?= $(PREFIX)

ROOT := $(CURDIR)

ifeq ($(V),1)
say = @:
Q :=
else
say = @printf '  %-5s %s\n'
Q := @
endif

ifeq ($(SANITIZE),1)
O := objs-asan
else
O := objs
endif


# Flags.  -D_GNU_SOURCE= and not =1: a source may say `#define _GNU_SOURCE`
# itself, and the two must be the same definition.

WARN := -Wall -Wextra -Werror -Wformat-security -Wshadow -Wmissing-prototypes \
        -Wno-unused-parameter

HARDEN_LD := -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -Wl,--as-needed

ifeq ($(SANITIZE),1)
SAN := -fsanitize=address,undefined -fno-sanitize-recover=undefined \
       -fno-omit-frame-pointer
HARDEN := -O1 -g -fstack-protector-strong
LINK_JAIL := -pie
else
SAN :=
HARDEN := -O2 -g -fstack-protector-strong -D_FORTIFY_SOURCE=2
LINK_JAIL := $(JAIL_LINK)
endif

CFLAGS_ALL = -std=gnu17 -D_GNU_SOURCE= $(WARN) $(HARDEN) -fPIE $(SAN) \
             $(INCLUDES) -iquote $(O) $(CC_OPT) $(CFLAGS)

# A header is named with its folder: "base/fault.h"; the module names those
# that it shares with the launcher from the top: "jail/shared/limits.h".

INCLUDES := -iquote jail -iquote ngx_agent_broker -iquote .

# The messages of unit tests may be cut, which clang has no such warning of.

UNIT_FLAGS := -Wno-format-truncation

LDFLAGS_ALL = $(SAN) $(HARDEN_LD) $(LD_OPT) $(LDFLAGS)

LIBS_PURE := -ljansson -lcrypto -lpcre2-8 -lpsl


# Sources

JAIL_SRCS := $(filter-out jail/box/seccomp_gen.c,\
               $(wildcard jail/*.c jail/*/*.c))
JAIL_HDRS := $(wildcard jail/*/*.h)
JAIL_OBJS := $(JAIL_SRCS:%.c=$(O)/o/%.o)

# the broker's files without nginx in them
PURE_SRCS := $(foreach f,$(wildcard ngx_agent_broker/*/*.c),\
               $(if $(filter ngx_%,$(notdir $f)),,$f))
PURE_OBJS := $(PURE_SRCS:%.c=$(O)/o/%.o)

# what both programs must agree on
SHARED_SRCS := $(wildcard jail/shared/*.c)

UNIT_SRCS := $(wildcard t/unit/*_test.c)
UNIT_OBJS := $(UNIT_SRCS:%.c=$(O)/o/%.o)
UNIT_BINS := $(UNIT_SRCS:t/unit/%.c=$(O)/t/%)

FUZZ_SRCS := $(wildcard t/fuzz/*.c)
FUZZ_BINS := $(FUZZ_SRCS:t/fuzz/%.c=objs/fuzz/%)

MODULE := ngx_agent_broker_module.so
MODULE_SRCS := $(wildcard ngx_agent_broker/*.c ngx_agent_broker/*/*.c) \
               $(wildcard jail/shared/*.c)
MODULE_HDRS := $(wildcard ngx_agent_broker/*.h ngx_agent_broker/*/*.h) \
               $(wildcard jail/shared/*.h)

TARGETS := $(if $(JAIL_SRCS),$(O)/jail)
TARGETS += $(if $(wildcard ngx_agent_broker/config),$(O)/$(MODULE))


# what a variable of these rules holds: make -s print-MODULE_SRCS

print-%:
	@echo $($*)


.PHONY: all unit lint test nightly test-fresh soak test-v2 bench fuzz install clean FORCE

all: $(TARGETS)


# A changed configure writes the Makefile anew, with the same options.

Makefile: auto/configure auto/options auto/feature auto/tools auto/libs \
          auto/nginx auto/makefile auto/summary
	@sh auto/configure $(CONFIGURE_ARGS)


# The launcher

# A successful link says nothing: libcgroup brings functions that look up
# users, which the linker warns of in a static program and nobody calls here.

$(O)/jail: $(JAIL_OBJS)
	$(say) LINK $@
	$(Q)$(CC) $(LINK_JAIL) -o $@.new $(JAIL_OBJS) $(LDFLAGS_ALL) $(JAIL_LIBS) \
	    2> $@.log || { grep -v -e libcgroup -e 'statically linked' $@.log >&2; exit 1; }
	@mv -f $@.new $@

# The seccomp filter is compiled here, by libseccomp, and not at each start:
# loading the ready program takes a fifth of the time.

$(O)/seccomp_gen: jail/box/seccomp_gen.c $(JAIL_HDRS) Makefile auto/rules.mk
	@mkdir -p $(@D)
	$(say) CC $@
	$(Q)$(CC) $(filter-out -fsanitize% -fno-sanitize%,$(CFLAGS_ALL)) -pie \
	    -o $@ $< $(HARDEN_LD) $(LD_OPT) -lseccomp

$(O)/seccomp_filter.h: $(O)/seccomp_gen
	$(say) GEN $@
	$(Q)$(O)/seccomp_gen > $@.new
	@mv -f $@.new $@

$(JAIL_OBJS) $(UNIT_OBJS): | $(O)/seccomp_filter.h

$(O)/o/%.o: %.c Makefile auto/rules.mk
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<


# The module, through the configure of nginx-dev.  It writes only below
# --builddir.  Sanitizers come in through CC when make runs: given to
# configure they would change what its feature tests find, and with that the
# layout of nginx's structures.  nginx adds -W -Wall -Werror itself.  Nobody
# puts another function in the place of one of the module's: they are called,
# and inlined, directly.

NGX_CC_OPT := $(filter-out -std=gnu17,$(HARDEN)) -fPIC -Wformat-security \
              -fno-semantic-interposition $(CC_OPT)
NGX_LD_OPT := -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -fPIC \
              -Wl,-Bsymbolic-functions $(LD_OPT)

NGX_OBJS := $(ROOT)/$(O)/nginx

$(O)/nginx/Makefile: ngx_agent_broker/config $(NGINX_SRC)/conf_flags \
                     Makefile auto/rules.mk
	@rm -rf $(O)/nginx
	@mkdir -p $(O)/nginx
	$(say) CONF $(O)/nginx
	@bash -c 'cd "$(NGINX_SRC)" && . ./conf_flags && ./configure \
	    --with-cc="$(CC)" \
	    --with-cc-opt="$(NGX_CC_OPT)" --with-ld-opt="$(NGX_LD_OPT)" \
	    "$${NGX_CONF_FLAGS[@]}" \
	    --add-dynamic-module="$(ROOT)/ngx_agent_broker" \
	    --builddir="$(NGX_OBJS)"' > $(O)/nginx/configure.log 2>&1 \
	    || { cat $(O)/nginx/configure.log; rm -f $@; exit 1; }
	@echo $(MODULE_SRCS) > $(O)/nginx/sources
	@touch $@

# a file that came or went is in no Makefile of before

ifneq ($(strip $(MODULE_SRCS)),$(strip $(file < $(O)/nginx/sources)))
$(O)/nginx/Makefile: FORCE
endif

# nginx's Makefile knows only the headers that `config` lists: a changed
# header drops the module's objects.

$(O)/nginx/headers: $(MODULE_HDRS) | $(O)/nginx/Makefile
	@rm -f $(O)/nginx/addon/*/*.o
	@touch $@

$(O)/$(MODULE): $(MODULE_SRCS) $(MODULE_HDRS) $(O)/nginx/Makefile \
                $(O)/nginx/headers
	$(say) MAKE $@
	$(Q)$(MAKE) --no-print-directory $(if $(Q),-s) \
	    -f $(NGX_OBJS)/Makefile -C $(NGINX_SRC) CC="$(CC) $(SAN)" modules
	@cp $(O)/nginx/$(MODULE) $@.new
	@mv -f $@.new $@


# Unit tests: the pure parts, and the launcher without its main(), as an
# archive, so that a test takes what it needs

UNIT_JAIL_OBJS := $(filter-out $(O)/o/jail/jail.o,$(JAIL_OBJS))

unit: $(UNIT_BINS)

ifeq ($(HAVE_CMOCKA),YES)

$(O)/o/unit.a: $(PURE_OBJS) $(UNIT_JAIL_OBJS)
	@rm -f $@
	$(Q)ar rcs $@ $^

$(O)/t/%: $(O)/o/t/unit/%.o $(O)/o/unit.a
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) -pie -o $@.new $< $(O)/o/unit.a $(LDFLAGS_ALL) \
	    -lcmocka $(LIBS_PURE) $(JAIL_LIBS)
	@mv -f $@.new $@

else

$(UNIT_BINS): FORCE
	@echo "make unit needs cmocka: apt-get install libcmocka-dev" \
	      "&& auto/configure" >&2; exit 1

endif

$(UNIT_OBJS): $(O)/o/%.o: %.c Makefile auto/rules.mk
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(CFLAGS_ALL) $(UNIT_FLAGS) -MMD -MP -c -o $@ $<


# Fuzz targets: clang's libFuzzer over the pure parts, with a kept corpus
# t/fuzz/NAME.corpus where there is one.

fuzz: $(FUZZ_BINS)
	@set -e; for bin in $(FUZZ_BINS); do \
	    name=$$(basename $$bin); \
	    mkdir -p objs/fuzz/corpus/$$name; \
	    seeds=t/fuzz/$$name.corpus; [ -d $$seeds ] || seeds=; \
	    printf '  %-24s' $$name; \
	    $$bin -max_total_time=$(FUZZ_SECONDS) -timeout=10 \
	        -artifact_prefix=objs/fuzz/$$name. -print_final_stats=1 \
	        objs/fuzz/corpus/$$name $$seeds > objs/fuzz/$$name.log 2>&1 \
	        || { echo failed; tail -n 60 objs/fuzz/$$name.log; exit 1; }; \
	    sed -n 's/^stat::number_of_executed_units: *//p' \
	        objs/fuzz/$$name.log | tr '\n' ' '; \
	    echo runs, nothing found; \
	done

objs/fuzz/%: t/fuzz/%.c $(PURE_SRCS) $(SHARED_SRCS) $(MODULE_HDRS) Makefile \
             auto/rules.mk
	@mkdir -p $(@D)
	@[ -n "$(FUZZ_CC)" ] || { echo "make fuzz needs clang:" \
	    "apt-get install clang && auto/configure" >&2; exit 1; }
	$(say) FUZZ $@
	$(Q)$(FUZZ_CC) -std=gnu17 -D_GNU_SOURCE= $(WARN) -O1 -g \
	    -fsanitize=fuzzer,address,undefined \
	    -fno-sanitize-recover=undefined \
	    $(INCLUDES) -o $@ \
	    $< $(PURE_SRCS) $(SHARED_SRCS) $(LIBS_PURE)


# What the compiler, clang-tidy and cppcheck say with more of their warnings
# than a build has: nothing.  One stamp a source, so that a second run reads
# only what has changed.
#
# Left out, with the reason: ...BufferHandling and strcpy, which only propose
# the functions of Annex K, that glibc does not have; Padding, an order of
# members; err34-c, about sscanf of numbers that the kernel writes; widening of
# products of constants; narrowing, which -Wconversion says where it matters.

LINT_SRCS := $(JAIL_SRCS) jail/box/seccomp_gen.c \
             $(filter-out jail/%,$(MODULE_SRCS))

LINT_WARN := -Wall -Wextra -Werror -Wno-unused-parameter -Wshadow \
             -Wmissing-prototypes -Wstrict-prototypes -Wconversion \
             -Wno-sign-conversion -Wvla -Wpointer-arith -Wundef -Wlogical-op \
             -Wduplicated-cond -Wduplicated-branches

LINT_TIDY := -*,bugprone-*,clang-analyzer-*,cert-*,performance-*
LINT_TIDY := $(LINT_TIDY),misc-redundant-expression
LINT_TIDY := $(LINT_TIDY),readability-misleading-indentation
LINT_TIDY := $(LINT_TIDY),-bugprone-easily-swappable-parameters
LINT_TIDY := $(LINT_TIDY),-bugprone-reserved-identifier,-cert-dcl37-c
LINT_TIDY := $(LINT_TIDY),-cert-dcl51-cpp,-cert-err34-c
LINT_TIDY := $(LINT_TIDY),-bugprone-implicit-widening-of-multiplication-result
LINT_TIDY := $(LINT_TIDY),-bugprone-narrowing-conversions
LINT_TIDY := $(LINT_TIDY),-performance-no-int-to-ptr
LINT_TIDY := $(LINT_TIDY),-clang-analyzer-optin.performance.Padding
LINT_TIDY := $(LINT_TIDY),-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling
LINT_TIDY := $(LINT_TIDY),-clang-analyzer-security.insecureAPI.strcpy

LINT_NGINX := $(foreach d,core event event/modules os/unix http http/modules \
              http/v2,-isystem $(NGINX_SRC)/src/$d) -isystem $(O)/nginx

LINT_FLAGS := -std=gnu17 -D_GNU_SOURCE= $(INCLUDES) -iquote $(O) $(LINT_NGINX)

lint: $(LINT_SRCS:%.c=$(O)/lint/%.ok) $(O)/lint/cppcheck.ok

$(O)/lint/%.ok: %.c $(JAIL_HDRS) $(MODULE_HDRS) auto/rules.mk \
                | $(O)/seccomp_filter.h $(O)/nginx/Makefile
	@mkdir -p $(@D)
	$(say) LINT $<
	$(Q)$(CC) -fsyntax-only -O2 $(LINT_WARN) $(LINT_FLAGS) $<
	$(Q)clang-tidy --quiet --warnings-as-errors='*' --checks='$(LINT_TIDY)' \
	    $< -- -Wno-unused-parameter $(LINT_FLAGS) > $@.log 2> /dev/null \
	    || { cat $@.log; exit 1; }
	@touch $@

$(O)/lint/cppcheck.ok: $(LINT_SRCS) $(JAIL_HDRS) $(MODULE_HDRS) auto/rules.mk
	@mkdir -p $(@D)
	$(say) LINT cppcheck
	$(Q)cppcheck --quiet --std=c11 --enable=warning,performance,portability \
	    --inline-suppr --suppress=missingIncludeSystem --error-exitcode=1 \
	    -D_GNU_SOURCE -I jail -I ngx_agent_broker -I . -I $(O) $(LINT_SRCS)
	@touch $@


# Tests and figures

test:
	scripts/test

nightly:
	. scripts/packages.sh; packages_need "$$PACKAGES_NIGHTLY"
	[ -n "$(FUZZ_CC)" ] || auto/configure $(CONFIGURE_ARGS)
	AGENT_TEST_SANITIZE=all scripts/test
	$(MAKE) test-fresh soak fuzz

test-fresh:
	scripts/test-fresh

test-v2:
	AGENT_TEST_SANITIZE=off scripts/test t/vm/v2.t

$(O)/bench_spawn: scripts/bench_spawn.c Makefile auto/rules.mk
	@mkdir -p $(@D)
	$(say) CC $@
	$(Q)$(CC) $(CFLAGS_ALL) -pie -o $@ $< $(LDFLAGS_ALL)

$(O)/bench_tls: scripts/bench_tls.c Makefile auto/rules.mk
	@mkdir -p $(@D)
	$(say) CC $@
	$(Q)$(CC) $(CFLAGS_ALL) -pie -o $@ $< $(LDFLAGS_ALL) -lssl -lcrypto

$(O)/bench_least: scripts/bench_least.c Makefile auto/rules.mk
	@mkdir -p $(@D)
	$(say) CC $@
	$(Q)$(CC) $(CFLAGS_ALL) $(LINK_JAIL) -o $@ $< $(LDFLAGS_ALL)

bench: all $(O)/bench_spawn $(O)/bench_least $(O)/bench_tls
	scripts/bench

SOAK ?= 10000
COST ?= 1000000

soak: all
	SOAK=$(SOAK) prove -v t/jail/soak.t
	COST=$(COST) prove -v t/broker/worker_leaks.t


# Installation.  The configuration goes where an operator copies it from:
# make install overwrites nobody's policies.

DATA := $(DESTDIR)$(prefix)/share/agent-broker

install: all
	install -d $(DESTDIR)$(prefix)/bin $(DESTDIR)$(MODULES_PATH) \
	    $(DATA)/conf/policies $(DATA)/scripts
	install -m 755 $(O)/jail $(DESTDIR)$(prefix)/bin/jail
	install -m 644 $(O)/$(MODULE) $(DESTDIR)$(MODULES_PATH)/$(MODULE).new
	mv -f $(DESTDIR)$(MODULES_PATH)/$(MODULE).new \
	    $(DESTDIR)$(MODULES_PATH)/$(MODULE)
	install -m 644 $(wildcard conf/*.conf conf/*.example conf/*.json) \
	    $(DATA)/conf
	install -m 644 $(wildcard conf/policies/*.conf) $(DATA)/conf/policies
	install -D -m 644 conf/apparmor/agent-jail \
	    $(DATA)/conf/apparmor/agent-jail
	install -m 644 README.md LICENSE $(DATA)
	for f in $(wildcard scripts/setup-host); do \
	    install -m 755 $$f $(DATA)/scripts; \
	done
	for f in $(wildcard jail/*.1); do \
	    install -D -m 644 $$f \
	        $(DESTDIR)$(prefix)/share/man/man1/$$(basename $$f); \
	done

clean:
	rm -rf objs objs-asan Makefile


-include $(shell find $(O)/o -name '*.d' 2>/dev/null)
