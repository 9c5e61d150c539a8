package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"time"
)

// namespacesCommand implements "scale namespaces": it creates and deletes many namespaces. The server's
// controllers create objects in each namespace. Many clients work concurrently, so that their writes share
// fsyncs.
func namespacesCommand(ctx context.Context, args []string) error {
	return curve(ctx, flag.NewFlagSet("namespaces", flag.ExitOnError), args, 10_000, tryNamespaces)
}

func tryNamespaces(ctx context.Context, t try) error {
	n := t.n
	e, err := newExperiment(ctx, t.binary, t.dir, t.options)
	if err != nil {
		return err
	}
	defer e.close()
	name := func(i int) string { return fmt.Sprintf("many-%d", i) }
	err = e.step(ctx, "create namespaces", n, func(ctx context.Context) error {
		err := concurrently(ctx, n, 16, func(ctx context.Context, i int) error {
			return e.client.create(ctx, "/api/v1/namespaces", namespaceObject(name(i)))
		})
		if err != nil {
			return err
		}
		return e.awaitCount(ctx, "/api/v1/configmaps?fieldSelector=metadata.name%3Dkube-root-ca.crt", `"name":"kube-root-ca.crt","namespace":"many-`, n)
	})
	if err != nil {
		return err
	}
	if err := e.again(ctx, "restart"); err != nil {
		return err
	}
	err = e.step(ctx, "a pod in each", n, func(ctx context.Context) error {
		return concurrently(ctx, n, 16, func(ctx context.Context, i int) error {
			return e.client.create(ctx, "/api/v1/namespaces/"+name(i)+"/pods", podObject("pod", i))
		})
	})
	if err != nil {
		return err
	}
	return e.step(ctx, "delete namespaces", n, func(ctx context.Context) error {
		err := concurrently(ctx, n, 16, func(ctx context.Context, i int) error {
			return e.client.remove(ctx, "/api/v1/namespaces/"+name(i))
		})
		if err != nil {
			return err
		}
		return e.awaitCount(ctx, "/api/v1/namespaces", `"name":"many-`, 0)
	})
}

// awaitCount waits until a list contains a text exactly n times. It polls rarely, because polling loads the
// server.
func (e *experiment) awaitCount(ctx context.Context, path, text string, n int) error {
	for {
		list, err := e.client.get(ctx, path)
		if err != nil {
			return err
		}
		if bytes.Count(list, []byte(text)) == n {
			return nil
		}
		pause(ctx, 500*time.Millisecond)
	}
}
