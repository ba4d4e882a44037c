package veneer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"bifrost.dev/veneer"
)

// The functions of README.md, with the same text.

func visit(ctx context.Context, url string) error {
	session, err := veneer.Connect(ctx, url, veneer.Options{})
	if err != nil {
		return err
	}
	defer session.Close()
	people := session.Lookup("database", "DataBase")
	eve := people.Call("DataBase.fetch", veneer.TextValue("eve")) // recorded: nothing has crossed
	eve.Do("DataElem.touch")
	visits, err := eve.Call("DataElem.visits").Claim() // one crossing for all three
	if err != nil {
		return err
	}
	fmt.Println("visits:", visits)
	return session.Commit()
}

func isKnown(people *veneer.Stub, name string) (bool, error) {
	_, err := people.Call("DataBase.fetch", veneer.TextValue(name)).Call("DataElem.name").Claim()
	var signal *veneer.Signal
	if errors.As(err, &signal) && signal.Name == "not_found" {
		return false, nil
	}
	return err == nil, err
}

func TestTheReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(readme), "```go\n")[1:]
	if len(blocks) != 2 {
		t.Errorf("there are %d blocks", len(blocks))
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(string(own), block) {
			t.Errorf("this block is not tested:\n%s", block)
		}
	}
	ctx, url := context.Background(), veneer.StartServer(t, "database")[0]
	session, err := veneer.Connect(ctx, url, veneer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	people := session.Lookup("database", "DataBase")
	if known, err := isKnown(people, "eve"); err != nil || !known {
		people.Call("DataBase.new_user", veneer.TextValue("eve"))
	}
	if err := session.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := visit(ctx, url); err != nil {
		t.Error(err)
	}
	for name, expected := range map[string]bool{"eve": true, "nobody": false} {
		if known, err := isKnown(people, name); err != nil || known != expected {
			t.Errorf("%s: %v, %v", name, known, err)
		}
	}
}
