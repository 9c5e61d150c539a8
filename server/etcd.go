package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mainstay.dev/mainstay/storage/kv"
	"mainstay.dev/mainstay/storage/kv/etcd"
)

// etcdTimeout is how long a server that starts waits for etcd.
const etcdTimeout = 20 * time.Second

// etcdConfig returns the configuration of the etcd backend.
func (c Config) etcdConfig() etcd.Config {
	return etcd.Config{
		Endpoints:          c.EtcdServers,
		CAFile:             c.EtcdTLS.CAFile,
		CertFile:           c.EtcdTLS.CertFile,
		KeyFile:            c.EtcdTLS.KeyFile,
		HealthPrefix:       c.EtcdPrefix,
		CompactionInterval: c.EtcdCompactionInterval,
	}
}

func (c Config) checkEtcd() error {
	if len(c.EtcdServers) == 0 {
		if c.EtcdTLS != (EtcdTLSConfig{}) {
			return errors.New("--etcd-cafile, --etcd-certfile and --etcd-keyfile need --etcd-servers")
		}
		return nil
	}
	if err := c.etcdConfig().Check(); err != nil {
		return fmt.Errorf("--etcd-servers: %w", err)
	}
	return nil
}

// openEtcd opens the etcd backend, and waits until etcd answers. It returns the
// error of ctx if that ends the wait.
func (h *Host) openEtcd(ctx context.Context) error {
	config := h.config.etcdConfig()
	config.Logger, config.Registerer, config.Dial = h.logger, h.registry, h.egress.Etcd
	where := strings.Join(config.Endpoints, ",")
	store, err := etcd.Open(config)
	if err != nil {
		return fmt.Errorf("use etcd at %s: %w", where, err)
	}
	waitCtx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	err = store.Await(waitCtx)
	if err != nil && ctx.Err() != nil {
		return errors.Join(ctx.Err(), store.Close())
	}
	if errors.Is(err, kv.ErrUnavailable) {
		err = fmt.Errorf("no answer for %s: %w", etcdTimeout, err)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("use etcd at %s: %w", where, err), store.Close())
	}
	h.backend = store
	return nil
}
