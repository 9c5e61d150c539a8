package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"mainstay.dev/mainstay/storage/kv/embedded"
)

func newCheck(signals <-chan os.Signal) *cobra.Command {
	var dataDir string
	command := &cobra.Command{
		Use:   "check",
		Short: "Check that the store of a stopped server is whole",
		Long: `Read everything in the store of a stopped server: every sum, every record, and
whether versions, change log and expiry index agree. It changes nothing. The exit
code is 0 when all is well, and 1 when not.`,
		Example: `  mainstay check --data-dir=/var/lib/mainstay`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if dataDir == "" {
				return &usageError{errors.New("--data-dir is needed")}
			}
			ctx, stop := untilSignal(signals)
			defer stop()
			store, release, err := lockStore(dataDir)
			if err != nil {
				return fmt.Errorf("check %s: %w", dataDir, err)
			}
			shown := newProgress(c.ErrOrStderr())
			r, err := embedded.Check(ctx, store, func(n int64) { shown.show("records checked", n, 0) })
			shown.end()
			if err = errors.Join(err, release()); err != nil {
				return fmt.Errorf("check %s: %w", dataDir, err)
			}
			fmt.Fprintf(c.OutOrStdout(), "the store in %s is whole: format %d, revision %d, %d keys (%d expire), %d versions of %d bytes, %d commits since revision %d\n",
				dataDir, r.Format, r.Revision, r.Keys, r.Expiring, r.Versions, r.Bytes, r.Commits, r.Compacted)
			return nil
		},
	}
	command.Flags().StringVar(&dataDir, "data-dir", "", "data directory of a server that is stopped")
	return command
}
