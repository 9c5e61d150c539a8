package main

import (
	"context"
	"flag"
	"fmt"
)

// emptyingCommand is `scale emptying`: a namespace with many objects of many kinds is deleted.
func emptyingCommand(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("emptying", flag.ExitOnError)
	binary := flags.String("binary", "mainstay", "the server")
	dir := flags.String("data-dir", "emptying-data", "folder for the server's data")
	objects := flags.Int("objects", 100_000, "how many objects; a tenth and a hundredth of them come first")
	kinds := flags.Int("kinds", 500, "of how many kinds they are")
	options := flags.String("server-flags", "", "more flags of the server, separated by spaces")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, n := range sizes(*objects) {
		c := content{objects: n, kinds: *kinds, size: 1 << 10, namespace: "full"}
		if err := tryEmptying(ctx, *binary, fmt.Sprintf("%s-%d", *dir, n), *options, c); err != nil {
			return err
		}
	}
	return nil
}

func tryEmptying(ctx context.Context, binary, dir, options string, c content) error {
	e, err := newExperiment(ctx, binary, dir, options)
	if err != nil {
		return err
	}
	defer e.close()
	if err := e.client.create(ctx, "/api/v1/namespaces", namespaceObject(c.namespace)); err != nil {
		return err
	}
	if err := e.server.stop(); err != nil {
		return err
	}
	if err := fill(ctx, dir, c); err != nil {
		return err
	}
	if err := e.restarted(ctx, "start with objects", e.server.start); err != nil {
		return err
	}
	return e.step(ctx, "delete the namespace", c.objects, func(ctx context.Context) error {
		path := "/api/v1/namespaces/" + c.namespace
		if err := e.client.remove(ctx, path); err != nil {
			return err
		}
		return e.client.await(ctx, path, false)
	})
}
