package main

import (
	"context"
	"flag"
)

// emptyingCommand implements "scale emptying": it deletes a namespace with many objects of many kinds.
func emptyingCommand(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("emptying", flag.ExitOnError)
	kinds := flags.Int("kinds", 500, "number of kinds of objects")
	return curve(ctx, flags, args, 100_000, func(ctx context.Context, t try) error {
		return tryEmptying(ctx, t, content{objects: t.n, kinds: *kinds, size: 1 << 10, namespace: "full"})
	})
}

func tryEmptying(ctx context.Context, t try, c content) error {
	e, err := newExperiment(ctx, t.binary, t.dir, t.options)
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
	if err := fill(ctx, t.dir, c); err != nil {
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
