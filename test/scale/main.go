// Command scale fills the store of a stopped server with many custom objects, to find out
// what a server with that many costs: docs/scale.md has the figures and how they were taken.
//
//	mainstay serve --data-dir=D     # and stop it once it is ready
//	go run ./test/scale --data-dir=D --objects=1000000 --kinds=200
//	mainstay serve --data-dir=D
//
// Objects and their definitions are written past the API, in its own keys and encodings:
// definitions are as they would be after a server has accepted and established them.
//
// Imports: kubelet/kubelettest, storage/kv, storage/kv/embedded, test/testserver.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"mainstay.dev/mainstay/storage/kv"
	"mainstay.dev/mainstay/storage/kv/embedded"
)

// perCommit is how many objects are written at a time.
const perCommit = 1000

func main() {
	dir := flag.String("data-dir", "mainstay-data", "folder of a server that does not run")
	objects := flag.Int("objects", 1_000_000, "how many objects there are to be in all")
	kinds := flag.Int("kinds", 200, "of how many kinds they are")
	size := flag.Int("size", 1<<10, "bytes of an object, about")
	flag.Parse()
	if err := fill(context.Background(), *dir, *objects, *kinds, *size); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func fill(ctx context.Context, dir string, objects, kinds, size int) (err error) {
	store, err := embedded.Open(embedded.Config{Dir: filepath.Join(dir, "store")})
	if err != nil {
		return fmt.Errorf("open the store of %s: %w", dir, err)
	}
	defer func() {
		if closed := store.Close(); err == nil {
			err = closed
		}
	}()
	for k := range kinds {
		if err := commit(ctx, store, []kv.Op{definition(k)}); err != nil {
			return err
		}
	}
	began := time.Now()
	for done := 0; done < objects; {
		ops := make([]kv.Op, 0, perCommit)
		for ; len(ops) < perCommit && done < objects; done++ {
			ops = append(ops, object(done%kinds, done/kinds, size))
		}
		if err := commit(ctx, store, ops); err != nil {
			return err
		}
		if done%100_000 == 0 {
			fmt.Fprintf(os.Stderr, "%d of %d objects, %s\n", done, objects, time.Since(began).Round(time.Second))
		}
	}
	return nil
}

func commit(ctx context.Context, store kv.Backend, ops []kv.Op) error {
	result, err := store.Commit(ctx, ops...)
	if err != nil {
		return fmt.Errorf("write %s and %d more: %w", ops[0].Key, len(ops)-1, err)
	}
	if !result.Committed {
		return fmt.Errorf("%s or one of %d more is there already", ops[0].Key, len(ops)-1)
	}
	return nil
}

const group = "scale.example.com"

func plural(k int) string { return fmt.Sprintf("things%d", k) }

// definition is the stored CustomResourceDefinition of a kind, established.
func definition(k int) kv.Op {
	now := time.Now().UTC().Format(time.RFC3339)
	name := plural(k) + "." + group
	names := map[string]any{"plural": plural(k), "singular": fmt.Sprintf("thing%d", k), "kind": fmt.Sprintf("Thing%d", k), "listKind": fmt.Sprintf("Thing%dList", k)}
	condition := func(kind, reason string) map[string]any {
		return map[string]any{"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": "the initial names have been accepted"}
	}
	return put("apiextensions.k8s.io/customresourcedefinitions/"+name, map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": name, "uid": uuid.NewString(), "generation": 1, "creationTimestamp": now},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": names, "conversion": map[string]any{"strategy": "None"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
					"spec": map[string]any{"type": "object", "properties": map[string]any{
						"text": map[string]any{"type": "string"}, "number": map[string]any{"type": "integer"},
					}},
				}}},
			}},
		},
		"status": map[string]any{
			"acceptedNames": names, "storedVersions": []any{"v1"},
			"conditions": []any{condition("NamesAccepted", "NoConflicts"), condition("Established", "InitialNamesAccepted")},
		},
	})
}

// object is the nth stored object of a kind.
func object(k, n, size int) kv.Op {
	name := fmt.Sprintf("o%07d", n)
	return put(fmt.Sprintf("%s/%s/default/%s", group, plural(k), name), map[string]any{
		"apiVersion": group + "/v1", "kind": fmt.Sprintf("Thing%d", k),
		"metadata": map[string]any{
			"name": name, "namespace": "default", "uid": uuid.NewString(), "generation": 1,
			"creationTimestamp": time.Now().UTC().Format(time.RFC3339), "labels": map[string]any{"n": fmt.Sprint(n % 100)},
		},
		"spec": map[string]any{"number": n, "text": strings.Repeat("x", max(0, size-360))},
	})
}

func put(key string, value map[string]any) kv.Op {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err) // maps of text and numbers always encode
	}
	return kv.Op{Key: "/registry/" + key, Value: encoded}
}
