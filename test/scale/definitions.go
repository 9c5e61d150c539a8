package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
)

// definitionsCommand implements "scale definitions": it creates many definitions one after another.
func definitionsCommand(ctx context.Context, args []string) error {
	return curve(ctx, flag.NewFlagSet("definitions", flag.ExitOnError), args, 10_000, tryDefinitions)
}

func tryDefinitions(ctx context.Context, t try) error {
	e, err := newExperiment(ctx, t.binary, t.dir, t.options)
	if err != nil {
		return err
	}
	defer e.close()
	d := definitions{e, t.n}
	for _, s := range d.steps() {
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

// definitions is an experiment that creates n definitions.
type definitions struct {
	*experiment
	n int
}

// definitionStep is a step of the experiment. If do is nil, the step is a restart of the server.
type definitionStep struct {
	name  string
	units int
	do    func(context.Context) error
}

func (d definitions) steps() []definitionStep {
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	read := func(path, accept string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := d.client.do(ctx, request{method: http.MethodGet, path: path, accept: accept})
			return err
		}
	}
	return []definitionStep{
		{"create definitions", d.n, func(ctx context.Context) error { return concurrently(ctx, d.n, 4, d.create) }},
		{"await the last", 1, func(ctx context.Context) error { return d.client.await(ctx, d.path(d.n-1), true) }},
		{"restart", 0, nil},
		{"discovery", 1, read("/apis", aggregated)},
		{"discovery again", 1, read("/apis", aggregated)},
		{"OpenAPI v3 of one group", 1, read("/openapi/v3/apis/"+soakGroup+"/v1", "")},
		{"OpenAPI v2", 1, read("/openapi/v2", "")},
		{"one more", 1, func(ctx context.Context) error {
			if err := d.create(ctx, d.n); err != nil {
				return err
			}
			return d.client.await(ctx, d.path(d.n), true)
		}},
		{"discovery then", 1, read("/apis", aggregated)},
		{"OpenAPI v2 then", 1, read("/openapi/v2", "")},
		{"list of each kind", d.n, func(ctx context.Context) error { return concurrently(ctx, d.n, 4, d.list) }},
		{"delete all", d.n, d.deleteAll},
	}
}

func (d definitions) path(i int) string { return fmt.Sprintf("/apis/%s/v1/many%d", soakGroup, i) }

func (d definitions) create(ctx context.Context, i int) error {
	return d.client.create(ctx, definitionsPath, definitionObject(fmt.Sprintf("many%d", i)))
}

func (d definitions) list(ctx context.Context, i int) error {
	_, err := d.client.get(ctx, d.path(i))
	return err
}

// deleteAll deletes all definitions. It repeats the request, because deleting many objects takes longer than
// the timeout of a request.
func (d definitions) deleteAll(ctx context.Context) error {
	err := d.client.remove(ctx, definitionsPath)
	for isCode(err, http.StatusGatewayTimeout) {
		err = d.client.remove(ctx, definitionsPath)
	}
	if err != nil {
		return err
	}
	return d.awaitCount(ctx, definitionsPath, `"kind":"K`, 0)
}
