// Command scale finds out what a server costs that has very much to do. docs/scale.md has the figures and how they were
// taken. Each of its commands is one experiment:
//
//	scale fill --data-dir=D              # many custom objects in the store of a stopped server
//	scale soak --binary=mainstay         # mixed load with restarts: a table and a picture of memory and more
//	scale definitions --binary=mainstay  # many definitions, and one more
//	scale namespaces --binary=mainstay   # many namespaces made and deleted
//	scale emptying --binary=mainstay     # a namespace with many objects of many kinds deleted
//	scale nodes --binary=mainstay        # kubelets, a scheduler and controllers of many nodes
//	scale fairness --binary=mainstay     # gets while others list and create as much as they can
//	scale watches --kubeconfig=FILE      # many watches at a running server, and changes of which each concerns ten
//
// What fill writes goes past the API, in the API's own keys and encodings: definitions are as they would be after a
// server has accepted and established them. The other commands are clients of a server, which all but the last
// start themselves, and read what it uses from /proc and /metrics. Processor time and memory are what they tell; times on the clock depend on
// what else the machine does.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	commands := map[string]func(context.Context, []string) error{
		"fill":        fillCommand,
		"soak":        soakCommand,
		"definitions": definitionsCommand,
		"namespaces":  namespacesCommand,
		"emptying":    emptyingCommand,
		"nodes":       nodesCommand,
		"fairness":    fairnessCommand,
		"watches":     watchesCommand,
	}
	if len(args) == 0 || commands[args[0]] == nil {
		return errors.New("give one of the commands that `go doc ./test/scale` lists")
	}
	return commands[args[0]](ctx, args[1:])
}
