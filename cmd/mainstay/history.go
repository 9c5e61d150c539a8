package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/apis/history"
)

// historyCommand is the command history.
type historyCommand struct {
	historyFlags
	diff, all bool
	output    string
	client    *historyClient
	out       io.Writer
	differ    *differ
}

func newHistory(signals <-chan os.Signal) *cobra.Command {
	var h historyCommand
	command := &cobra.Command{
		Use:   "history [KIND/NAME]",
		Short: "Print the changes of an object or a namespace with their users and times",
		Long: `Print the changes of an object, or of all objects of a namespace: their time, user and
changed fields. With --diff, print the differences of the objects.

The command shows the changes of objects whose history the user may read: the user needs
the verb list for changes.history.mainstay.dev, and the verbs get and history for the
objects. Managed fields are omitted.

The command is also a kubectl plugin, if it is installed under the name kubectl-history.`,
		Example: `  mainstay history deploy/web -n shop --diff
  mainstay history -n shop --since=1h
  mainstay history -A --user=jane -o json`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			ctx, stop := untilSignal(signals)
			defer stop()
			if h.output != "" && h.output != "json" && h.output != "yaml" {
				return &usageError{fmt.Errorf("--output is %q; it must be json or yaml", h.output)}
			}
			h.out, h.differ = c.OutOrStdout(), newDiffer(c.OutOrStdout(), h.all)
			if h.client, err = h.historyFlags.client(); err != nil {
				return err
			}
			return h.run(ctx, args)
		},
	}
	h.addTo(command.Flags(), "")
	h.addUntil(command.Flags())
	command.Flags().BoolVar(&h.diff, "diff", false, "print the differences of the objects")
	command.Flags().BoolVar(&h.all, "all-fields", false, "with --diff, include managed fields, resourceVersion and generation")
	command.Flags().StringVarP(&h.output, "output", "o", "", "output format: json or yaml (default: text)")
	return command
}

func (h *historyCommand) run(ctx context.Context, args []string) error {
	object, err := h.client.object(ctx, args)
	if err != nil {
		return err
	}
	changes, err := h.client.changes(ctx, object, h.query(object))
	if err != nil {
		return err
	}
	if h.output != "" {
		return printObjects(h.out, h.output, changes)
	}
	if len(changes) == 0 {
		_, err := fmt.Fprintln(h.out, "no changes")
		return err
	}
	for i := range changes {
		if err := h.print(ctx, &changes[i]); err != nil {
			return err
		}
	}
	return nil
}

// printObjects prints changes as JSON or YAML.
func printObjects(out io.Writer, format string, changes []history.Change) error {
	text, err := json.MarshalIndent(changes, "", "  ")
	if err == nil && format == "yaml" {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, strings.TrimSpace(string(text)))
	return err
}

func (h *historyCommand) print(ctx context.Context, c *history.Change) error {
	if _, err := fmt.Fprintln(h.out, describeChange(c)); err != nil {
		return err
	}
	if !h.diff {
		return nil
	}
	whole, err := h.client.change(ctx, c)
	if err != nil {
		return err
	}
	if _, err := h.differ.print(objectName(c), whole.Before, whole.After); err != nil {
		return err
	}
	_, err = fmt.Fprintln(h.out)
	return err
}

// describeChange formats a change, with its changed fields on additional lines.
func describeChange(c *history.Change) string {
	line := fmt.Sprintf("%s  %s  %s  %s", c.CreationTimestamp.UTC().Format(time.RFC3339), c.Revision, c.Operation, describeObject(c))
	if by := describeOrigin(c); by != "" {
		line += "  " + by
	}
	if len(c.Fields) > 0 {
		line += "\n    " + strings.Join(c.Fields, "\n    ")
	}
	if c.FieldsTruncated {
		line += "\n    ..."
	}
	return line
}

// describeOrigin describes who made a change. It returns "" if the user is unknown.
func describeOrigin(c *history.Change) string {
	if c.User == "" {
		return ""
	}
	by := "by " + c.User
	if c.ImpersonatedBy != "" {
		by += " (impersonated by " + c.ImpersonatedBy + ")"
	}
	if c.FieldManager != "" {
		by += " with " + c.FieldManager
	}
	return by
}
