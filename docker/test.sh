#!/usr/bin/env bash
# Tests clusters of containers: docker/test.sh [--check] [PROFILE]; --check only looks whether there is that profile.
# The image is docker/build.sh's; docker/profiles has a folder for each profile. What all containers, clients and jobs have
# logged is kept in build/docker-test.
set -euo pipefail
cd "$(dirname "$0")/.."

only_check=
[ "${1:-}" != --check ] || { only_check=1; shift; }
profiles=(simple ha upgrade versions kerberos)
chosen=("${1:-simple}")
[ "${chosen[0]}" != all ] || chosen=("${profiles[@]}")
case " ${profiles[*]} " in
  *" ${chosen[0]} "*) ;;
  *)
    echo "docker/test.sh: there is no profile '$1'; there are ${profiles[*]}, and all, which runs each" >&2
    exit 2
    ;;
esac
[ -z "$only_check" ] || exit 0

rm -rf build/docker-test
mkdir -p build/docker-test
code=0
for profile in "${chosen[@]}"; do
  runs=("$profile")
  [ "$profile" != versions ] || read -ra runs <<<"$(printf 'versions-%s ' ${TREADLE_RELEASES:-$(cat docker/profiles/versions/releases.txt)})"
  for run in "${runs[@]}"; do
    SECONDS=0
    said=passed
    docker/run.sh "$run" || { said=FAILED; code=1; }
    echo "$run $said in $SECONDS s" | tee -a build/docker-test/runs.txt
  done
done
echo "All in all:"
cat build/docker-test/runs.txt
echo "What the containers, clients and jobs have logged is in $PWD/build/docker-test"
exit "$code"
