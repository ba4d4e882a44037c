// The program packaging packs the Go library as a proxy of modules has it, and makes an empty
// project that needs it, with the client of README.md:
//
//	packaging LIBRARY VERSION PROXY PROJECT
//
// PROXY is a folder for GOPROXY=file://PROXY, and PROJECT one for a program.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: packaging LIBRARY VERSION PROXY PROJECT")
		os.Exit(2)
	}
	library, version, proxy, project := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	if err := run(library, version, proxy, project); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

func run(library, version, proxy, project string) error {
	text, err := os.ReadFile(filepath.Join(library, "go.mod"))
	if err != nil {
		return err
	}
	file, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		return err
	}
	packed := module.Version{Path: file.Module.Mod.Path, Version: version}
	if err := pack(library, packed, text, proxy); err != nil {
		return err
	}
	readme, err := os.ReadFile(filepath.Join(library, "README.md"))
	if err != nil {
		return err
	}
	return makeProject(string(readme), project)
}

// pack writes the files of a version into the folder of a proxy.
func pack(library string, packed module.Version, text []byte, proxy string) error {
	escaped, err := module.EscapePath(packed.Path)
	if err != nil {
		return err
	}
	folder := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := zip.CreateFromDir(&archive, packed, library); err != nil {
		return err
	}
	info := fmt.Sprintf(`{"Version":%q,"Time":%q}`, packed.Version,
		time.Now().UTC().Format(time.RFC3339))
	return errors.Join(
		write(folder, packed.Version+".zip", archive.Bytes()),
		write(folder, packed.Version+".mod", text),
		write(folder, packed.Version+".info", []byte(info)),
		write(folder, "list", []byte(packed.Version+"\n")),
	)
}

// makeProject writes a program with the first block of the README, which has a function visit. The
// project is the module example.com/client, and has stubs in its folder database.
func makeProject(readme, project string) error {
	_, rest, isThere := strings.Cut(readme, "```go\n")
	block, _, isClosed := strings.Cut(rest, "```")
	if !isThere || !isClosed || !strings.Contains(block, "func visit(") {
		return errors.New("README.md has no function visit in its first block")
	}
	if err := os.MkdirAll(project, 0o755); err != nil {
		return err
	}
	program := fmt.Sprintf(`package main

import (
	"context"
	"fmt"
	"os"

	"example.com/client/database"
)

%s
func main() {
	if err := visit(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
`, block)
	source, err := format.Source([]byte(program))
	if err != nil {
		return err
	}
	return write(project, "main.go", source)
}

func write(folder, name string, data []byte) error {
	return os.WriteFile(filepath.Join(folder, name), data, 0o644)
}
