# A cluster of another release of Hadoop, the variant, with the same jar of Treadle. releases.txt says which there are;
# TREADLE_RELEASES='3.3.6 3.5.0' chooses some. All else is tested with java-shim/runtime's.
services=(namenode rm-host rm sidecar history worker-1 worker-2)
tests=(tests/docker/test_versions.py)

prepare() {
  sed "s/RELEASE/$variant/" "$folder/pom.xml" >"$context/pom.xml"
  .venv/bin/python - "$context" <<'PYTHON'
import shutil, sys
from pathlib import Path
from treadle_lab.minicluster.settings import gather

context = Path(sys.argv[1])
shutil.copytree(gather(print, context / "pom.xml"), context / "lib")
PYTHON
  own_image
}
