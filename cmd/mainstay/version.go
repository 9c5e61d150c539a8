package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"mainstay.dev/mainstay/internal/controlplane"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program and of the API it serves",
		Args:  noArgs,
		Run:   func(c *cobra.Command, _ []string) { printVersion(c.OutOrStdout()) },
	}
}

func printVersion(out io.Writer) {
	fmt.Fprintf(out, "mainstay %s\nKubernetes API %s\n%s %s/%s\n",
		version, controlplane.KubernetesVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
