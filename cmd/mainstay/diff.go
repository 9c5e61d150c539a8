package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"mainstay.dev/mainstay/internal/apis/history"
)

// diffCommand is the command diff.
type diffCommand struct {
	historyFlags
	all    bool
	client *historyClient
	out    io.Writer
}

func newDiff(signals <-chan os.Signal) *cobra.Command {
	var d diffCommand
	command := &cobra.Command{
		Use:   "diff [KIND/NAME | control-plane/FORK | control-plane/A control-plane/B]",
		Short: "Compare objects with their earlier state, or two control planes",
		Long: `Print the difference between the present state of objects and their state at an earlier
time, in the format of diff -u. Objects that have changed and changed back are omitted.
The permissions are those of "mainstay history".

With control-plane/FORK, print what was created, changed and deleted in a fork since it was
forked, in all namespaces unless --namespace is set. With control-plane/A and control-plane/B,
print how the present objects of B differ from those of A, unless B is a fork of A. Events,
leases and changes of the status are omitted. "root" names the root control plane.`,
		Example: `  mainstay diff -n shop --since=15m
  mainstay diff deploy/web -n shop --since=2026-11-27T14:02:00Z
  mainstay diff control-plane/try-upgrade
  mainstay diff control-plane/staging control-plane/prod`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			ctx, stop := untilSignal(signals)
			defer stop()
			d.out = c.OutOrStdout()
			if d.client, err = d.historyFlags.client(); err != nil {
				return err
			}
			if before, after, ok := controlPlaneArguments(args); ok {
				namespace := ""
				if c.Flags().Changed("namespace") {
					namespace = d.namespace
				}
				return d.runControlPlanes(ctx, before, after, namespace)
			}
			return d.run(ctx, args)
		},
	}
	d.addTo(command.Flags(), "15m")
	d.addUntil(command.Flags())
	command.Flags().BoolVar(&d.all, "all-fields", false, "include managed fields, resourceVersion and generation")
	return command
}

func (d *diffCommand) run(ctx context.Context, args []string) error {
	object, err := d.client.object(ctx, args)
	if err != nil {
		return err
	}
	changes, err := d.client.changes(ctx, object, d.query(object))
	if err != nil {
		return err
	}
	printer := newDiffer(d.out, d.all)
	different := false
	for _, changed := range changedObjects(changes) {
		before, after, _, err := d.client.states(ctx, changed)
		if err != nil {
			return err
		}
		printed, err := printer.print(objectName(changed.first), before, after)
		if err != nil {
			return err
		}
		different = different || printed
	}
	if !different {
		_, err = fmt.Fprintln(d.out, "no differences")
	}
	return err
}

// changedObject contains the first and the last change of an object.
type changedObject struct{ first, last *history.Change }

// changedObjects groups changes by object. The result is in the order of the first change of each object.
func changedObjects(changes []history.Change) []changedObject {
	type key struct{ resource, namespace, name string }
	var objects []changedObject
	index := map[key]int{}
	for i := range changes {
		c := &changes[i]
		k := key{c.Object.Resource, c.Namespace, c.Object.Name}
		if at, ok := index[k]; ok {
			objects[at].last = c
			continue
		}
		index[k] = len(objects)
		objects = append(objects, changedObject{c, c})
	}
	return objects
}
