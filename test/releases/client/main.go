// Command client uses the client libraries with which it was compiled to test the API server that KUBECONFIG
// names. If the first argument is kubectl, it runs kubectl of the same version with the remaining arguments.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubectl/pkg/cmd"
)

// timeout is the timeout for all requests of a run together.
const timeout = 2 * time.Minute

func main() {
	if len(os.Args) > 1 && os.Args[1] == "kubectl" {
		os.Args = os.Args[1:]
		if err := cmd.NewDefaultKubectlCommand().Execute(); err != nil {
			os.Exit(1)
		}
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	generic, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	u := &user{ctx: ctx, client: client, generic: generic}
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"discovery", u.discover}, {"objects", u.writeObjects}, {"patches", u.patch}, {"informer", u.inform}, {"newer fields", u.sendNewerField},
	} {
		if err := step.run(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}
