package e2e

import (
	"os"
	"testing"

	"mainstay.dev/mainstay/test/testserver"
)

func TestMain(m *testing.M) {
	if file := os.Getenv(credentialsOf); file != "" {
		execPlugin(file)
		return
	}
	if os.Getenv(runAsKubectl) != "" {
		kubectlMain()
		return
	}
	os.Exit(testserver.Main(m))
}
