package host

import (
	"crypto/x509"
	"fmt"
	"os"
)

// openPeers loads the authority of other servers' certificates.
func (h *Host) openPeers() error {
	file := h.config.PeerCAFile
	if file == "" {
		return nil
	}
	bundle, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--peer-ca-file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		return fmt.Errorf("--peer-ca-file: %s contains no PEM certificate", file)
	}
	h.env.Network.PeerAuthorities = pool
	return nil
}
