# `make demo` runs the demo, `make test` all checks. Each target creates the environment that it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml CMakeLists.txt $(wildcard kernels/*.cpp kernels/*/*.cpp kernels/*/*.hpp)

.PHONY: demo paper test check tests test-cores test-timm test-browser test-labelstudio test-datasets test-programs test-clang test-plain bench attack sanitize wheel test-wheel test-pythons site format clean

demo: $(VENV)/installed
	$(BIN)/prototag demo

# The paper's tables and figures on the embedded collection; `make paper PAPER="a.npz b.npz"` for others.
PAPER ?= --quick
paper: $(VENV)/installed
	$(BIN)/prototag paper $(PAPER)

test: check tests

check: $(VENV)/developed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

tests: $(VENV)/developed
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

# Tests of bit-identical results and of engines (marker `bits`), with OpenBLAS's kernels of other processors and without
# NumPy's vector code: two minutes. All tests under one core type: `OPENBLAS_CORETYPE=Haswell make tests`.
test-cores: $(VENV)/developed
	$(BIN)/python -m tools.core_types -m bits --numprocesses 2 --dist loadfile \
	  tests/engine tests/annotator tests/library tests/cli tests/tagging

# torch and timm are installed outside .venv, so that all other tests run without them.
TIMM := .timm
test-timm: $(TIMM)/installed
	PYTHONPATH=$(TIMM) $(BIN)/python -m pytest tests/with_timm

# Hugging Face's datasets and pycocotools are installed outside .venv, too.
EXCHANGE := .exchange
test-datasets: $(EXCHANGE)/installed
	PYTHONPATH=$(EXCHANGE) $(BIN)/python -m pytest tests/with_datasets

# Label Studio (1 GB) has its own environment; the tests run it and connect over loopback only.
STUDIO := .labelstudio
test-labelstudio: $(VENV)/developed $(STUDIO)/installed
	PROTOTAG_LABEL_STUDIO=$(abspath $(STUDIO))/bin/label-studio $(BIN)/python -m pytest tests/with_labelstudio

# The review page in Debian's Chromium (package chromium), driven by Playwright; axe-core, from npm, checks accessibility.
AXE := .axe
test-browser: $(VENV)/browsed $(AXE)/package/axe.min.js
	$(BIN)/python -m pytest tests/service/test_browser.py

# Photo programs of Debian that read what ProtoTag writes, and darktable (0.5 GB) with its Lua script, on a virtual screen.
# `make test` runs the same tests with the programs that are installed.
PROGRAMS := darktable shotwell libimage-exiftool-perl exiv2 xvfb xauth dbus-daemon
test-programs: $(VENV)/developed
	dpkg -s $(PROGRAMS) >/dev/null 2>&1 || apt-get install -y --no-install-recommends $(PROGRAMS)
	$(BIN)/python -m pytest tests/with_programs

bench: $(VENV)/benched
	$(BIN)/python -m benchmarks.coding

# Seeded fuzz tests: malicious files and names, concurrent processes, kills and full disks. Some minutes; `make attack N=100000`
# takes hours, ATTACK="models kills" selects kinds.
ATTACK ?=
N ?=
attack: $(VENV)/developed
	$(BIN)/python -W ignore -m benchmarks.attack $(ATTACK) $(if $(N),--count $(N) --seconds 86400)

# The kernel tests with a module built by Clang, in a copy of the package.
KERNEL_TESTS := tests/coding tests/mcdl/test_updates.py tests/mcdl/test_kmeans.py \
  tests/evaluation/test_ranking.py tests/test_rowwise_matmul.py
CLANG := build/clang
test-clang: $(VENV)/developed
	$(BIN)/cmake -S . -B $(CLANG) -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=clang++ \
	  -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja -DPython_EXECUTABLE=$(abspath $(BIN))/python
	$(BIN)/cmake --build $(CLANG)
	rm -rf $(CLANG)/tree && mkdir $(CLANG)/tree && cp -r src/prototag $(CLANG)/tree
	cp $(CLANG)/_kernels*.so $(CLANG)/tree/prototag
	PYTHONPATH=$(CLANG)/tree:$$($(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))") \
	  $(BIN)/python -S -m pytest -p no:cacheprovider $(KERNEL_TESTS)

# The kernel tests with the portable code for compilers without GNU vector extensions (MSVC), in standard C++ only.
PLAIN := build/plain
test-plain: $(VENV)/developed
	$(BIN)/cmake -S . -B $(PLAIN) -G Ninja -DCMAKE_BUILD_TYPE=Release -DPROTOTAG_PLAIN=ON \
	  -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja -DPython_EXECUTABLE=$(abspath $(BIN))/python
	$(BIN)/cmake --build $(PLAIN)
	rm -rf $(PLAIN)/tree && mkdir $(PLAIN)/tree && cp -r src/prototag $(PLAIN)/tree
	cp $(PLAIN)/_kernels*.so $(PLAIN)/tree/prototag
	PYTHONPATH=$(PLAIN)/tree:$$($(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))") \
	  $(BIN)/python -S -m pytest -p no:cacheprovider $(KERNEL_TESTS)

# The kernel tests under AddressSanitizer and UndefinedBehaviorSanitizer, in a copy of the package.
CLEAN := build/sanitized
SANITIZE := -fsanitize=address,undefined
sanitize: $(VENV)/developed
	$(BIN)/cmake -S . -B $(CLEAN) -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	  -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja -DPython_EXECUTABLE=$(abspath $(BIN))/python \
	  -DCMAKE_CXX_FLAGS="$(SANITIZE) -fno-sanitize-recover=undefined" \
	  -DCMAKE_MODULE_LINKER_FLAGS="$(SANITIZE)"
	$(BIN)/cmake --build $(CLEAN)
	rm -rf $(CLEAN)/tree && mkdir $(CLEAN)/tree && cp -r src/prototag $(CLEAN)/tree
	cp $(CLEAN)/_kernels*.so $(CLEAN)/tree/prototag
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	  ASAN_OPTIONS=detect_leaks=0 \
	  PYTHONPATH=$(CLEAN)/tree:$$($(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))") \
	  $(BIN)/python -S -m pytest -p no:cacheprovider $(KERNEL_TESTS)

# The sdist and the wheel built from it: without build isolation and, if possible, without a network.
OFFLINE := $(shell unshare --net true 2>/dev/null && echo unshare --net)
wheel: $(VENV)/released
	rm -rf dist
	$(OFFLINE) $(BIN)/python -m build --no-isolation
	$(BIN)/python -m tools.check_wheel dist

# Install the wheel in an empty environment without a compiler, and run its commands without a network.
test-wheel: wheel
	$(PYTHON) tools/try_wheel.py dist/*.whl

# The same with every Python from 3.11 on that this machine has (search path, pyenv, uv), then by pipx and uvx.
test-pythons: wheel
	PATH="$(abspath $(BIN)):$$PATH" $(PYTHON) tools/try_pythons.py dist

# The documentation site in build/site. Warnings are errors, and no page may request anything from another host.
SITE := build/site
site: $(VENV)/documented
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	$(BIN)/python -m tools.site.check $(SITE)

format: $(VENV)/developed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"

# Built in place without isolation, so that changing a kernel recompiles only that kernel.
$(VENV)/installed: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --group build
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable .
	touch $@

$(VENV)/developed: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --group test --group lint
	touch $@

$(VENV)/documented: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --group docs
	touch $@

$(VENV)/released: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --group release
	touch $@

# torchvision's wheel requires torch with CUDA; tests/with_timm/conftest.py loads it without.
$(TIMM)/installed: $(VENV)/developed
	$(BIN)/python -m pip install --quiet --target $(TIMM) torch==2.13.0 huggingface-hub pyyaml
	$(BIN)/python -m pip install --quiet --target $(TIMM) --no-deps torchvision==0.28.0 "timm>=1.0"
	touch $@

$(EXCHANGE)/installed: $(VENV)/developed
	$(BIN)/python -m pip install --quiet --target $(EXCHANGE) "datasets>=5" "pycocotools>=2.0.10"
	touch $@

$(STUDIO)/installed:
	$(PYTHON) -m venv $(STUDIO)
	$(STUDIO)/bin/python -m pip install --quiet "label-studio==1.23.2"
	touch $@

$(VENV)/browsed: $(VENV)/developed
	$(BIN)/python -m pip install --quiet --group browser
	touch $@

$(AXE)/package/axe.min.js:
	mkdir -p $(AXE)
	-cd $(AXE) && tar -xzf "$$(npm pack --silent axe-core@4)"
	test -e $@ || echo "axe-core could not be fetched by npm: what it judges is skipped."

$(VENV)/benched: $(VENV)/developed
	$(BIN)/python -m pip install --quiet --group bench
	touch $@

clean:
	rm -rf $(VENV) $(TIMM) $(EXCHANGE) $(STUDIO) $(AXE) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .schemathesis
