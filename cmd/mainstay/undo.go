package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"mainstay.dev/mainstay/internal/apis/history"
)

const undoLong = `Write earlier states of objects back as new versions.

With KIND/NAME and --to, one object returns to its state at a time. Without an object, all
changes in a namespace since --since are undone: changed objects return to their earlier
state, deleted objects are created again with their UIDs, and created objects are deleted.
Namespaces, definitions and owners are created before the objects that depend on them.
With --user or --selector, only these changes are undone; an object that another user has
changed afterwards is a conflict: it is reported and not overwritten.

The writes pass through authorization, admission and validation. The status of objects
does not change, except with --status. Events, leases and the IPAddresses of services are
ignored. The command prints the differences, and writes only after a confirmation.`

// undoCommand is the command undo.
type undoCommand struct {
	historyFlags
	planWriter
	to      string
	history *historyClient
}

func newUndo(signals <-chan os.Signal) *cobra.Command {
	u := undoCommand{planWriter: planWriter{manager: "mainstay-undo", restoreUIDs: true}}
	command := &cobra.Command{
		Use:   "undo [KIND/NAME]",
		Short: "Write earlier states of objects back",
		Long:  undoLong,
		Example: `  mainstay undo deploy/web -n shop --to=-15m
  mainstay undo -n shop --since=10m --dry-run=server
  mainstay undo -n shop --since=10m --user=jane --yes`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			ctx, stop := untilSignal(signals)
			defer stop()
			if err := u.check(args); err != nil {
				return &usageError{err}
			}
			u.in, u.out = c.InOrStdin(), c.OutOrStdout()
			if u.history, err = u.historyFlags.client(); err != nil {
				return err
			}
			u.target = u.history.apiClient
			return u.run(ctx, args)
		},
	}
	u.historyFlags.addTo(command.Flags(), "")
	command.Flags().StringVar(&u.to, "to", "", "with KIND/NAME: the time of the state, such as 2026-11-27T14:02:00Z, -15m or rv/ and a resourceVersion")
	u.planWriter.addTo(command.Flags())
	command.Flags().BoolVar(&u.status, "status", false, "restore the status of objects, too")
	return command
}

func (u *undoCommand) check(args []string) error {
	switch {
	case len(args) > 0 && (u.to == "" || u.since != ""):
		return errors.New("an object requires --to instead of --since")
	case len(args) == 0 && (u.since == "" || u.to != ""):
		return errors.New("--since is required, or KIND/NAME and --to")
	case u.to != "":
		if err := checkMoment("--to", u.to); err != nil {
			return err
		}
	}
	return u.planWriter.check()
}

func (u *undoCommand) run(ctx context.Context, args []string) error {
	object, err := u.history.object(ctx, args)
	if err != nil {
		return err
	}
	if object != nil {
		revision, _, err := resolveMoment(ctx, u.kubeconfig, u.to)
		if err != nil {
			return err
		}
		u.since = "rv/" + revision
	}
	plan, err := u.plan(ctx, object)
	if err != nil {
		return err
	}
	if len(plan.steps) == 0 && len(plan.conflicts) == 0 {
		_, err := fmt.Fprintln(u.out, "nothing to undo")
		return err
	}
	return u.planWriter.run(ctx, plan)
}

// plan returns the writes that undo the selected changes. object may be nil.
func (u *undoCommand) plan(ctx context.Context, object *objectPath) (*writePlan, error) {
	selected, err := u.history.changes(ctx, object, u.query(object))
	if err != nil {
		return nil, err
	}
	all := selected
	if u.user != "" || u.selector != "" {
		unfiltered := u.historyFlags
		unfiltered.user, unfiltered.selector = "", ""
		if all, err = u.history.changes(ctx, object, unfiltered.query(object)); err != nil {
			return nil, err
		}
	}
	plan := &writePlan{}
	for _, changed := range changedObjects(selected) {
		if object == nil && isTransient(changed.first) {
			continue
		}
		if conflict := laterChange(changed, selected, all); conflict != nil {
			plan.conflicts = append(plan.conflicts, describeChange(conflict))
			continue
		}
		step, err := u.step(ctx, changed)
		if err != nil {
			return nil, err
		}
		if object == nil && isServiceAddress(changed.first, step.state()) {
			continue
		}
		if statesDiffer(step.want, step.live, u.status) {
			plan.steps = append(plan.steps, step)
		}
	}
	plan.sort()
	return plan, nil
}

// isTransient reports whether the object of a change only describes the current state of the cluster, so that
// undoing the change is useless.
func isTransient(c *history.Change) bool {
	switch c.Object.Resource {
	case "events", "events.events.k8s.io", "leases.coordination.k8s.io":
		return true
	}
	return false
}

// laterChange returns the first change of the object that follows the object's first selected change and is not
// itself selected. It returns nil if there is none.
func laterChange(changed changedObject, selected, all []history.Change) *history.Change {
	names := map[string]bool{}
	for i := range selected {
		names[selected[i].Name] = true
	}
	after := false
	for i := range all {
		c := &all[i]
		if c.Name == changed.first.Name {
			after = true
		}
		same := c.Object.Resource == changed.first.Object.Resource && c.Object.Name == changed.first.Object.Name && c.Namespace == changed.first.Namespace
		if after && same && !names[c.Name] {
			return c
		}
	}
	return nil
}

// step returns the write that undoes the changes of an object.
func (u *undoCommand) step(ctx context.Context, changed changedObject) (*writeStep, error) {
	before, now, first, err := u.history.states(ctx, changed)
	return &writeStep{change: first, want: before, live: now}, err
}
