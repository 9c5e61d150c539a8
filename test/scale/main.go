// Command scale measures the resource usage of a server under high load. docs/internals/scale.md contains the
// results and the method. Each command is one experiment:
//
//	scale fill --data-dir=D              # many custom objects in the store of a stopped server
//	scale soak --binary=mainstay         # mixed load with restarts: a table, and a chart of memory and other resources
//	scale definitions --binary=mainstay  # many definitions, and then one more
//	scale namespaces --binary=mainstay   # creation and deletion of many namespaces
//	scale emptying --binary=mainstay     # deletion of a namespace with many objects of many kinds
//	scale nodes --binary=mainstay        # kubelets, a scheduler and controllers of many nodes
//	scale fairness --binary=mainstay     # gets while other clients list and create at full speed
//	scale watches --kubeconfig=FILE      # many watches of a running server; each change affects ten of them
//
// fill writes directly to the store, with the keys and encodings of the API. It writes definitions in the state
// that they have after a server has accepted and established them. The other commands are clients of a server.
// All of them except watches start the server, and read its resource usage from /proc and /metrics. They report
// CPU time and memory; elapsed times depend on the load of the machine.
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
