package e2e

import (
	"os"
	"testing"

	"mainstay.dev/mainstay/test/testserver"
)

func TestMain(m *testing.M) {
	if os.Getenv(runAsKubectl) != "" {
		kubectlMain()
		return
	}
	os.Exit(testserver.Main(m))
}
