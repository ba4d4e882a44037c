#!/usr/bin/env bash
# Installs the jar into an empty project outside the checkout, and compares the output of the README's client there.
# Part of test.sh: needs the jar in `target`, and BIFROST_BIN. MAVEN_REPOSITORY is the repository of Maven on this machine
# (~/.m2/repository).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
here="$PWD"
root="$(cd ../.. && pwd)"
project="$(mktemp -d)"
trap 'rm -rf "$project"' EXIT
maven=(mvn --batch-mode --no-transfer-progress --quiet -Dstyle.color=never
  "-Dmaven.repo.local=$project/repository")

# A copy of links of the repository of Maven has what the build needs, and keeps the jar out of it.
repository="${MAVEN_REPOSITORY:-$HOME/.m2/repository}"
# Links need one file system.
cp -rl "$repository" "$project/repository" 2> "$project/why.txt" || cp -rn "$repository/." "$project/repository"
rm -rf "$project/repository/org/bifrost"
"${maven[@]}" -f "$here/pom.xml" install:install-file -Dfile="$here/target/bifrost-veneer-0.1.0.jar" -DpomFile="$here/pom.xml"

# The block of the README behind a mark.
block() {
  awk -v mark="<!-- $1 -->" '$0 == mark { getline; inside = 1; next } inside && /^```/ { exit } inside' README.md
}
sources="$project/src/main/java/people"
mkdir -p "$sources"
block client > "$sources/Client.java"
"$BIFROST_BIN" veneer --lang java --class people.Database "$root/examples/database/database.theta" -o "$project/src/main/java"
{
  echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
  echo '<groupId>people</groupId><artifactId>client</artifactId><version>1</version>'
  echo '<properties><maven.compiler.release>17</maven.compiler.release>'
  echo '<project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties><dependencies>'
  block dependency
  echo '</dependencies></project>'
} > "$project/pom.xml"
"${maven[@]}" -f "$project/pom.xml" org.apache.maven.plugins:maven-compiler-plugin:3.14.1:compile
jar="$project/repository/org/bifrost/bifrost-veneer/0.1.0/bifrost-veneer-0.1.0.jar"
block output > "$project/expected.txt"
"$root/veneers/c/tests/serve.sh" "$root/examples/database/database.theta" unix -- \
  java -cp "$project/target/classes:$jar" people.Client > "$project/printed.txt"
diff "$project/expected.txt" "$project/printed.txt"
echo "the client of the README prints what the README says"
