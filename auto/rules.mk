# The rules of the build.  ./Makefile, written by auto/configure, has the
# settings for this machine and includes this file.
#
#   make               builds the launcher, the module and the operator's
#                      tools, in objs/
#   make SANITIZE=1    builds both with address and undefined-behaviour
#                      sanitizers, in objs-asan/
#   make unit          builds the unit tests, in objs/t/
#   make test          runs scripts/test
#   make nightly       runs scripts/test, with all of t/jail, t/broker and
#                      t/clients also under sanitizers, and bodies of 5 GiB,
#                      then make test-fresh, make soak, make fuzz-sequences,
#                      make fuzz-control and make fuzz
#   make test-fresh    runs scripts/quickstart and scripts/test in a bare
#                      Debian 12 system that it makes; needs root
#   make test-v2       runs the tests for cgroup v2, in virtual machines
#   make bench         measures what a box and the broker's doors cost, beside
#                      a plain process, bubblewrap and an ordinary nginx
#   make soak          runs SOAK (10000) boxes, kills a tenth of them, and
#                      checks that nothing is left; sends COST (1000000)
#                      requests of each kind and checks that a worker's memory
#                      and descriptors do not grow; then 8 boxes for
#                      SOAK_SECONDS (600), with a reload a second
#   make fuzz-sequences  lets connections of boxes live and die at random, with
#                      reloads and killed workers between, for SECONDS (600)
#                      under sanitizers; SEED= repeats what was sent
#   make fuzz-control  the same of launchers: lines and descriptors of several
#                      users on the control socket
#   make fuzz          runs each fuzz target for FUZZ_SECONDS (60)
#   make build-debian13, build-sid  build in a system of that release, and run
#                      the unit tests there; need root and the network
#   make nginx-tests   runs nginx's own tests, a clone of which is in DIR=, with
#                      the module and without, and prints what differs
#   make install       installs to prefix=, below DESTDIR=
#   make lint          fails on any warning of cppcheck, clang-tidy or the
#                      compiler with more warnings than the build
#   make clean         removes all that configure and make wrote
#
# V=1 prints the commands.

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

# The messages of unit tests may be cut.  This is not in WARN, because clang,
# which builds the fuzz targets, does not have that warning.

# cmocka 2 has other names for some macros, which 1 does not have
UNIT_FLAGS := -Wno-format-truncation -Wno-deprecated-declarations

LDFLAGS_ALL = $(SAN) $(HARDEN_LD) $(LD_OPT) $(LDFLAGS)

LIBS_PURE := -ljansson -lcrypto -lpcre2-8 -lpsl


# Sources

JAIL_SRCS := $(filter-out jail/box/seccomp_gen.c,\
               $(wildcard jail/*.c jail/*/*.c))
JAIL_HDRS := $(wildcard jail/*/*.h)
JAIL_OBJS := $(JAIL_SRCS:%.c=$(O)/o/%.o)

# the module's files that do not use nginx
PURE_SRCS := $(foreach f,$(wildcard ngx_agent_broker/*/*.c),\
               $(if $(filter ngx_%,$(notdir $f)),,$f))
PURE_SRCS := $(filter-out ngx_agent_broker/tools/%,$(PURE_SRCS))
PURE_OBJS := $(PURE_SRCS:%.c=$(O)/o/%.o)

# programs beside the module, which share some of these
VAULT_SRCS := $(wildcard ngx_agent_broker/tools/agent_vault*.c \
                         ngx_agent_broker/policy/vault*.c) \
              $(wildcard jail/shared/secret*.c)
VAULT_OBJS := $(VAULT_SRCS:%.c=$(O)/o/%.o)

# the files that launcher and module share
SHARED_SRCS := $(wildcard jail/shared/*.c)

UNIT_SRCS := $(wildcard t/unit/*_test.c)
UNIT_OBJS := $(UNIT_SRCS:%.c=$(O)/o/%.o)
UNIT_BINS := $(UNIT_SRCS:t/unit/%.c=$(O)/t/%)

FUZZ_SRCS := $(wildcard t/fuzz/*.c)
FUZZ_BINS := $(FUZZ_SRCS:t/fuzz/%.c=objs/fuzz/%)

MODULE := ngx_agent_broker_module.so
MODULE_SRCS := $(wildcard ngx_agent_broker/*.c ngx_agent_broker/*/*.c) \
               $(wildcard jail/shared/*.c)
MODULE_SRCS := $(filter-out ngx_agent_broker/tools/%,$(MODULE_SRCS))
MODULE_HDRS := $(wildcard ngx_agent_broker/*.h ngx_agent_broker/*/*.h) \
               $(wildcard jail/shared/*.h)

TARGETS := $(if $(JAIL_SRCS),$(O)/jail)
TARGETS += $(if $(wildcard ngx_agent_broker/config),$(O)/$(MODULE))
TARGETS += $(if $(wildcard ngx_agent_broker/tools/agent_vault.c),\
             $(O)/agent-vault)


# make -s print-MODULE_SRCS prints the value of that variable

print-%:
	@echo $($*)


.PHONY: all unit lint test nightly test-fresh soak test-v2 bench fuzz \
        fuzz-sequences fuzz-control install clean nginx-tests build-debian13 \
        build-sid FORCE

all: $(TARGETS)


# When a file of configure has changed, it runs again with the same options.

Makefile: auto/configure auto/options auto/feature auto/tools auto/libs \
          auto/nginx auto/makefile auto/summary
	@sh auto/configure $(CONFIGURE_ARGS)


# The launcher

# The linker warns of libcgroup's functions that look up users, which do not
# work in a static program.  The launcher does not call them, so these warnings
# are not shown.

$(O)/jail: $(JAIL_OBJS)
	$(say) LINK $@
	$(Q)$(CC) $(LINK_JAIL) -o $@.new $(JAIL_OBJS) $(LDFLAGS_ALL) $(JAIL_LIBS) \
	    2> $@.log || { grep -v -e libcgroup -e 'statically linked' $@.log >&2; exit 1; }
	@mv -f $@.new $@

$(O)/agent-vault: $(VAULT_OBJS)
	$(say) LINK $@
	$(Q)$(CC) -pie -o $@.new $(VAULT_OBJS) $(LDFLAGS_ALL) -lcrypto
	@mv -f $@.new $@

# The seccomp filter is compiled here by libseccomp, not at each start of a box:
# loading the compiled filter takes a fifth of the time.

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


# The module is built by the configure of nginx-dev, which writes only below
# --builddir.  The flags of the sanitizers are passed in CC when make runs: as
# options of configure, they would change what its feature tests find, and so
# the layout of nginx's structures.  nginx adds -W -Wall -Werror itself.  No
# other library replaces a function of the module, so they may be called
# directly and inlined.

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

# when a source was added or removed, nginx's Makefile must be made again

ifneq ($(strip $(MODULE_SRCS)),$(strip $(file < $(O)/nginx/sources)))
$(O)/nginx/Makefile: FORCE
endif

# nginx's Makefile does not know all of the module's headers, only those that
# `config` lists: when any header has changed, the module's objects are removed.

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


# Unit tests are linked with an archive of the module's files that do not use
# nginx, and of the launcher without its main(); each takes what it needs.

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


# Fuzz targets: clang's libFuzzer runs the module's files that do not use nginx,
# beginning with the inputs in t/fuzz/NAME.corpus if there are any.

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


# Lint: the compiler with more warnings than in the build, clang-tidy and
# cppcheck must find nothing.  Each source has a stamp, so that a second run
# checks only what has changed.
#
# These checks are disabled: ...BufferHandling and strcpy only propose the
# functions of Annex K, which glibc does not have; Padding proposes another
# order of members; err34-c is about sscanf of numbers that the kernel writes;
# implicit-widening warns of products of constants; narrowing is reported by
# -Wconversion where it matters.

LINT_SRCS := $(JAIL_SRCS) jail/box/seccomp_gen.c \
             $(filter-out jail/%,$(MODULE_SRCS)) \
             $(wildcard ngx_agent_broker/tools/*.c)

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


# Tests and benchmarks

test:
	scripts/test

nightly:
	. scripts/packages.sh; packages_need "$$PACKAGES_NIGHTLY"
	[ -n "$(FUZZ_CC)" ] || auto/configure $(CONFIGURE_ARGS)
	AGENT_TEST_SANITIZE=all AGENT_TEST_BODY_MIB=5120 scripts/test
	$(MAKE) test-fresh soak fuzz-sequences fuzz-control fuzz

test-fresh:
	scripts/test-fresh

build-debian13:
	scripts/build-debian trixie

build-sid:
	scripts/build-debian sid

nginx-tests: all
	scripts/nginx-tests "$(DIR)" $(TESTS)

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
SOAK_SECONDS ?= 600
SECONDS ?= 600

soak: all
	SOAK=$(SOAK) prove -v t/jail/soak.t
	COST=$(COST) prove -v t/broker/worker_leaks.t
	SOAK_SECONDS=$(SOAK_SECONDS) prove -v t/broker/soak.t

fuzz-sequences:
	$(MAKE) SANITIZE=1 all
	SEQUENCES_SECONDS=$(SECONDS) SEQUENCES_SEED=$(SEED) AGENT_TEST_LIMIT=9999 \
	    AGENT_TEST_OBJS=objs-asan prove -v t/broker/sequences.t

fuzz-control:
	$(MAKE) SANITIZE=1 all
	SEQUENCES_SECONDS=$(SECONDS) SEQUENCES_SEED=$(SEED) AGENT_TEST_LIMIT=9999 \
	    AGENT_TEST_OBJS=objs-asan prove -v t/broker/control_sequences.t


# Installation.  The configuration is installed as an example that the operator
# copies, so make install never overwrites the policies in use.

DATA := $(DESTDIR)$(prefix)/share/agent-broker

install: all
	install -d $(DESTDIR)$(prefix)/bin $(DESTDIR)$(MODULES_PATH) \
	    $(DATA)/conf/policies $(DATA)/scripts
	install -m 755 $(O)/jail $(DESTDIR)$(prefix)/bin/jail
	install -m 755 $(O)/agent-vault $(DESTDIR)$(prefix)/bin/agent-vault
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
	for f in $(wildcard jail/*.1 ngx_agent_broker/tools/*.1); do \
	    install -D -m 644 $$f \
	        $(DESTDIR)$(prefix)/share/man/man1/$$(basename $$f); \
	done

clean:
	rm -rf objs objs-asan Makefile


-include $(shell find $(O)/o -name '*.d' 2>/dev/null)
