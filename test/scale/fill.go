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

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
)

// perCommit is the number of objects that are written in one commit.
const perCommit = 1000

// fillCommand implements "scale fill": it writes many objects to the store of a stopped server.
func fillCommand(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("fill", flag.ExitOnError)
	dir := flags.String("data-dir", "mainstay-data", "data directory of a stopped server")
	objects := flags.Int("objects", 1_000_000, "total number of objects")
	kinds := flags.Int("kinds", 200, "number of kinds of objects")
	size := flags.Int("size", 1<<10, "approximate size of an object, in bytes")
	namespace := flags.String("namespace", "default", "namespace of the objects")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return fill(ctx, *dir, content{*objects, *kinds, *size, *namespace})
}

// content specifies the objects in a store. size is the approximate size of an object, in bytes.
type content struct {
	objects, kinds, size int
	namespace            string
}

func fill(ctx context.Context, dir string, c content) (err error) {
	store, err := embedded.Open(embedded.Config{Dir: filepath.Join(dir, "store")})
	if err != nil {
		return fmt.Errorf("open the store of %s: %w", dir, err)
	}
	defer func() {
		if closed := store.Close(); err == nil {
			err = closed
		}
	}()
	for k := range c.kinds {
		if err := commit(ctx, store, []kv.Op{definition(k)}); err != nil {
			return err
		}
	}
	began := time.Now()
	for done := 0; done < c.objects; {
		ops := make([]kv.Op, 0, perCommit)
		for ; len(ops) < perCommit && done < c.objects; done++ {
			ops = append(ops, object(&c, done))
		}
		if err := commit(ctx, store, ops); err != nil {
			return err
		}
		if done%100_000 == 0 {
			fmt.Fprintf(os.Stderr, "%d of %d objects, %s\n", done, c.objects, time.Since(began).Round(time.Second))
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

// definition returns the stored form of an established CustomResourceDefinition.
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

// object returns the write of the nth object.
func object(c *content, n int) kv.Op {
	k, n := n%c.kinds, n/c.kinds
	name := fmt.Sprintf("o%07d", n)
	return put(fmt.Sprintf("%s/%s/%s/%s", group, plural(k), c.namespace, name), map[string]any{
		"apiVersion": group + "/v1", "kind": fmt.Sprintf("Thing%d", k),
		"metadata": map[string]any{
			"name": name, "namespace": c.namespace, "uid": uuid.NewString(), "generation": 1,
			"creationTimestamp": time.Now().UTC().Format(time.RFC3339), "labels": map[string]any{"n": fmt.Sprint(n % 100)},
		},
		"spec": map[string]any{"number": n, "text": strings.Repeat("x", max(0, c.size-360))},
	})
}

func put(key string, value map[string]any) kv.Op {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err) // maps of strings and numbers can always be encoded
	}
	return kv.Op{Key: "/registry/" + key, Value: encoded}
}
