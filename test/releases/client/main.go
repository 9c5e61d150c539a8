// Command client tests the API server of KUBECONFIG with the client libraries that it was compiled with.
// If the first argument is kubectl, it runs kubectl of the same version with the other arguments.
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

// timeout bounds all requests of a run.
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
