package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"mainstay.dev/mainstay/internal/apis/history"
	"mainstay.dev/mainstay/internal/host"
	"mainstay.dev/mainstay/internal/storage/backup"
	"mainstay.dev/mainstay/internal/storage/backup/target"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
)

func newBackup(signals <-chan os.Signal) *cobra.Command {
	command := &cobra.Command{
		Use:   "backup",
		Short: "List or verify a continuous backup",
		Long: `List or verify the continuous backup of a server with --backup-to. "mainstay restore"
restores it.`,
		Args: unknownCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	command.AddCommand(newBackupList(signals), newBackupVerify(signals))
	return command
}

// backupSource contains the flags that are common to the commands that read a backup.
type backupSource struct {
	from       string
	identities []string
}

func (s *backupSource) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&s.from, "from", "", "URL of the backup, as in --backup-to of the server")
	c.Flags().StringSliceVar(&s.identities, "identity", nil, "identity file of age with the key of an encrypted backup; may be repeated")
}

// open opens the backup and reads its catalog.
func (s *backupSource) open(ctx context.Context) (*backup.Source, *backup.Catalog, error) {
	if s.from == "" {
		return nil, nil, &usageError{errors.New("--from is required")}
	}
	from, err := target.Open(s.from)
	if err != nil {
		return nil, nil, &usageError{fmt.Errorf("--from: %w", err)}
	}
	source := &backup.Source{Target: from}
	for _, path := range s.identities {
		identities, err := readIdentities(path)
		if err != nil {
			return nil, nil, fmt.Errorf("--identity: read %s: %w", path, err)
		}
		source.Identities = append(source.Identities, identities...)
	}
	catalog, err := backup.ReadCatalog(ctx, from)
	if err == nil && len(catalog.Generations) == 0 {
		err = fmt.Errorf("there is no backup in %s", from)
	}
	return source, catalog, err
}

func readIdentities(path string) ([]age.Identity, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return age.ParseIdentities(f)
}

func newBackupList(signals <-chan os.Signal) *cobra.Command {
	var source backupSource
	var output string
	command := &cobra.Command{
		Use:   "list",
		Short: "List the times that a backup can restore",
		Long: `List the generations of a backup. A generation is a sequence of changes without a gap;
each time from its beginning to its end can be restored.`,
		Example: `  mainstay backup list --from=file:///var/backups/cluster`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return &usageError{fmt.Errorf("--output is %q; it can be json", output)}
			}
			ctx, stop := untilSignal(signals)
			defer stop()
			_, catalog, err := source.open(ctx)
			if err != nil {
				return err
			}
			if output == "json" {
				return printGenerationsJSON(c.OutOrStdout(), catalog)
			}
			return printGenerations(c.OutOrStdout(), catalog)
		},
	}
	source.addFlags(command)
	command.Flags().StringVarP(&output, "output", "o", "", "output format: json; a table by default")
	return command
}

// generation describes a backup generation in the output of "mainstay backup list".
type generation struct {
	Name          string    `json:"name"`
	From          time.Time `json:"from"`
	FirstRevision int64     `json:"firstRevision"`
	To            time.Time `json:"to"`
	LastRevision  int64     `json:"lastRevision"`
	Bases         int       `json:"bases"`
	Segments      int       `json:"segments"`
	Bytes         int64     `json:"bytes"`
}

func generationsOf(c *backup.Catalog) []generation {
	var all []generation
	for i := range c.Generations {
		g := &c.Generations[i]
		if len(g.Bases) == 0 {
			continue // cannot be restored
		}
		last, to := g.Newest()
		all = append(all, generation{
			Name: g.Name, From: g.Bases[0].Time, FirstRevision: int64(g.Bases[0].Revision), To: to, LastRevision: int64(last),
			Bases: len(g.Bases), Segments: len(g.Segments), Bytes: g.Bytes(),
		})
	}
	return all
}

func printGenerationsJSON(to io.Writer, c *backup.Catalog) error {
	out := json.NewEncoder(to)
	out.SetIndent("", "  ")
	return out.Encode(map[string]any{"generations": generationsOf(c)})
}

func printGenerations(to io.Writer, c *backup.Catalog) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "GENERATION\tFROM\tTO\tREVISIONS\tBASES\tSEGMENTS\tBYTES")
	for _, g := range generationsOf(c) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d-%d\t%d\t%d\t%d\n", g.Name, g.From.Format(time.RFC3339), g.To.Format(time.RFC3339), g.FirstRevision, g.LastRevision, g.Bases, g.Segments, g.Bytes)
	}
	return w.Flush()
}

func newBackupVerify(signals <-chan os.Signal) *cobra.Command {
	var source backupSource
	command := &cobra.Command{
		Use:   "verify",
		Short: "Verify all parts of a backup",
		Long: `Read all parts of a backup, verify their checksums and contents, and report missing
parts. Without an identity, only the checksums of an encrypted backup are verified.
The exit code is 0 if the backup is complete, and 1 otherwise.`,
		Example: `  mainstay backup verify --from="s3://backups/cluster?region=eu-central-1" --identity=backup.key`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(signals)
			defer stop()
			from, catalog, err := source.open(ctx)
			if err != nil {
				return err
			}
			bar := newProgress(c.ErrOrStderr())
			from.Progress = func(n int64) { bar.show("bytes read", n, 0) }
			v, err := from.Verify(ctx, catalog)
			bar.end()
			if err != nil {
				return fmt.Errorf("verify %s: %w", from.Target, err)
			}
			if len(v.Problems) > 0 {
				return fmt.Errorf("%s is damaged:\n%w", from.Target, errors.Join(v.Problems...))
			}
			fmt.Fprintf(c.OutOrStdout(), "%s is intact: %d objects, %d bytes\n", from.Target, v.Objects, v.Bytes)
			if v.Opaque > 0 {
				fmt.Fprintf(c.OutOrStdout(), "only the checksums of %d encrypted objects were verified; set --identity to verify their contents\n", v.Opaque)
			}
			return nil
		},
	}
	source.addFlags(command)
	return command
}

func newRestore(signals <-chan os.Signal) *cobra.Command {
	var source backupSource
	var dataDir, at, generation string
	command := &cobra.Command{
		Use:   "restore",
		Short: "Restore a continuous backup into a new store",
		Long: `Create a store in a data directory without a store, with the newest state in the backup,
or with the state at the time of --at.

Objects keep their resource versions. The store continues at a revision greater than
any that clients have seen, so that clients list again and miss no change. Keys and
certificates are not in the backup: copy DATA-DIR/pki of the old server.`,
		Example: `  mainstay restore --from=file:///var/backups/cluster --data-dir=/var/lib/mainstay
  mainstay restore --from=s3://backups/cluster --at=2026-11-27T14:02:00Z --data-dir=/var/lib/mainstay`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if dataDir == "" {
				return &usageError{errors.New("--data-dir is required")}
			}
			moment, err := parseMoment(at, time.Now())
			if err != nil {
				return &usageError{err}
			}
			ctx, stop := untilSignal(signals)
			defer stop()
			from, catalog, err := source.open(ctx)
			if err != nil {
				return err
			}
			plan, err := catalog.Plan(moment, generation)
			if err != nil {
				return fmt.Errorf("restore from %s: %w", from.Target, err)
			}
			bar := newProgress(c.ErrOrStderr())
			from.Progress = func(n int64) { bar.show("bytes read", n, 0) }
			var restored backup.Restored
			report, err := createStore(ctx, dataDir, bar, func(store string) (err error) {
				restored, err = from.Restore(ctx, plan, store)
				return err
			})
			bar.end()
			if err != nil {
				return fmt.Errorf("restore from %s: %w", from.Target, err)
			}
			fmt.Fprintf(c.OutOrStdout(), "restored %d keys of revision %d, %s, to %s; the store continues at revision %d\n",
				report.Keys, restored.Revision, restored.Time.UTC().Format(time.RFC3339Nano), dataDir, report.Revision)
			return nil
		},
	}
	source.addFlags(command)
	command.Flags().StringVar(&dataDir, "data-dir", "", "data directory for the new store")
	command.Flags().StringVar(&at, "at", "", "state to restore: a time such as 2026-11-27T14:02:00Z, an age such as -15m or -2d, or rv/ and a resourceVersion (default: the newest)")
	command.Flags().StringVar(&generation, "generation", "", "generation to restore, from \"mainstay backup list\" (default: the one that contains the state)")
	return command
}

// parseMoment parses the value of --at of "mainstay restore".
func parseMoment(text string, now time.Time) (backup.Moment, error) {
	if text == "" {
		return backup.Moment{}, nil
	}
	revision, at, err := history.ParseMoment(text, now)
	if err != nil {
		return backup.Moment{}, fmt.Errorf("--at is %q; %w", text, err)
	}
	if at.After(now) {
		return backup.Moment{}, fmt.Errorf("--at is %s, which is in the future", text)
	}
	return backup.Moment{Revision: revision, Time: at}, nil
}

// createStore locks a data directory, calls create with the path of a new store in it, and verifies the store.
// After an error, no store exists.
func createStore(ctx context.Context, dataDir string, bar *progress, create func(store string) error) (embedded.Report, error) {
	store, release, err := host.LockDataDir(dataDir)
	if err != nil {
		return embedded.Report{}, err
	}
	report, err := func() (embedded.Report, error) {
		if err := create(store); err != nil {
			return embedded.Report{}, err
		}
		report, err := embedded.Check(ctx, store, &embedded.CheckReader{Progress: func(n int64) { bar.show("records checked", n, 0) }})
		if err != nil {
			err = errors.Join(err, os.RemoveAll(store)) // the directory did not exist before
		}
		return report, err
	}()
	return report, errors.Join(err, release())
}
