package host

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/flags"
	"mainstay.dev/mainstay/internal/storage/backup"
	"mainstay.dev/mainstay/internal/storage/backup/target"
)

// BackupConfig configures the continuous backup of the embedded store.
type BackupConfig struct {
	// To is the URL of the target; see target.Open. "" disables the backup.
	To string
	// Interval is the maximum time between a change and its upload; 0 selects 5s.
	Interval time.Duration
	// BaseInterval is the time between two complete copies of the store; 0 selects 24h.
	BaseInterval time.Duration
	// Retention is how far back in time a restore can go; 0 selects 168h.
	Retention time.Duration
	// Recipients encrypt the backup; nil disables its encryption.
	Recipients []age.Recipient
}

func (c *BackupConfig) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.To, "backup-to", "", "URL of a continuous backup of the embedded store: file:///DIRECTORY or s3://BUCKET/PREFIX[?endpoint=URL&region=REGION]; each server needs its own directory or prefix")
	fs.DurationVar(&c.Interval, "backup-interval", backup.DefaultInterval, "maximum time between a change and its upload to --backup-to")
	fs.DurationVar(&c.BaseInterval, "backup-base-interval", backup.DefaultBaseInterval, "time between two complete copies of the store in --backup-to; a restore needs one of them and all later changes")
	fs.DurationVar(&c.Retention, "backup-retention", backup.DefaultRetention, "how far back in time a restore from --backup-to can go; older parts are deleted")
	flags.ListVar(fs, "backup-encrypt-to", "recipients", "recipients of age, such as age1..., for which the backup is encrypted, comma-separated; may be repeated (default: no encryption)", c.addRecipients)
}

func (c *BackupConfig) addRecipients(list string) error {
	recipients, err := age.ParseRecipients(strings.NewReader(strings.ReplaceAll(list, ",", "\n")))
	if err != nil {
		return fmt.Errorf("%q are not recipients of age such as age1...: %w", list, err)
	}
	c.Recipients = append(c.Recipients, recipients...)
	return nil
}

// check validates the config. dataDir is the absolute path of the data directory. etcd is true if the
// server uses etcd instead of the embedded store.
func (c *BackupConfig) check(dataDir string, etcd bool) error {
	if c.To == "" {
		if c.Recipients != nil {
			return errors.New("--backup-encrypt-to needs --backup-to")
		}
		return nil
	}
	if etcd {
		return errors.New("--backup-to copies the store in --data-dir, and cannot be set with --etcd-servers; use the backups of etcd instead")
	}
	if c.Interval < 0 || c.BaseInterval < 0 || c.Retention < 0 {
		return errors.New("--backup-interval, --backup-base-interval and --backup-retention cannot be negative")
	}
	to, err := target.Open(c.To)
	if err != nil {
		return fmt.Errorf("--backup-to: %w", err)
	}
	if path, ok := target.Path(to); ok {
		if relative, err := filepath.Rel(dataDir, path); err == nil && filepath.IsLocal(relative) {
			return fmt.Errorf("--backup-to is in the data directory %s, and would be lost with it", dataDir)
		}
	}
	return nil
}
