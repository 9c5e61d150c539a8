package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
)

// definitionsCommand is `scale definitions`: many definitions are made one after another, as clients do.
func definitionsCommand(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("definitions", flag.ExitOnError)
	binary := flags.String("binary", "mainstay", "the server")
	dir := flags.String("data-dir", "definitions-data", "folder for the server's data")
	number := flags.Int("number", 10_000, "how many definitions; a tenth and a hundredth of them come first")
	options := flags.String("server-flags", "", "more flags of the server, separated by spaces")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, n := range sizes(*number) {
		if err := tryDefinitions(ctx, *binary, fmt.Sprintf("%s-%d", *dir, n), *options, n); err != nil {
			return err
		}
	}
	return nil
}

func tryDefinitions(ctx context.Context, binary, dir, options string, n int) error {
	e, err := newExperiment(ctx, binary, dir, options)
	if err != nil {
		return err
	}
	defer e.close()
	all := "/apis/" + soakGroup + "/v1/"
	create := func(ctx context.Context, i int) error {
		return e.client.create(ctx, definitionsPath, definitionObject(fmt.Sprintf("many%d", i)))
	}
	read := func(path, accept string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := e.client.do(ctx, request{method: http.MethodGet, path: path, accept: accept})
			return err
		}
	}
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	steps := []struct {
		name  string
		units int
		do    func(context.Context) error
	}{
		{"create definitions", n, func(ctx context.Context) error { return concurrently(ctx, n, 4, create) }},
		{"await the last", 1, func(ctx context.Context) error { return e.client.await(ctx, all+fmt.Sprintf("many%d", n-1), true) }},
		{"restart", 0, nil},
		{"discovery", 1, read("/apis", aggregated)},
		{"discovery again", 1, read("/apis", aggregated)},
		{"OpenAPI v3 of one group", 1, read("/openapi/v3/apis/"+soakGroup+"/v1", "")},
		{"OpenAPI v2", 1, read("/openapi/v2", "")},
		{"one more", 1, func(ctx context.Context) error {
			if err := create(ctx, n); err != nil {
				return err
			}
			return e.client.await(ctx, all+fmt.Sprintf("many%d", n), true)
		}},
		{"discovery then", 1, read("/apis", aggregated)},
		{"OpenAPI v2 then", 1, read("/openapi/v2", "")},
		{"list of each kind", n, func(ctx context.Context) error {
			return concurrently(ctx, n, 4, func(ctx context.Context, i int) error {
				_, err := e.client.get(ctx, all+fmt.Sprintf("many%d", i))
				return err
			})
		}},
		{"delete all", n, func(ctx context.Context) error {
			err := e.client.remove(ctx, definitionsPath)
			for isCode(err, http.StatusGatewayTimeout) { // so many take longer than a request may
				err = e.client.remove(ctx, definitionsPath)
			}
			if err != nil {
				return err
			}
			return e.awaitCount(ctx, definitionsPath, `"kind":"K`, 0)
		}},
	}
	for _, s := range steps {
		if s.do == nil {
			err = e.again(ctx, s.name)
		} else {
			err = e.step(ctx, s.name, s.units, s.do)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
