package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestCommandLineByName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"/usr/bin/mainstay": {"--x"}, "bin/kube-apiserver": {"kube-apiserver", "--x"}, "etcd.exe": {"etcd", "--x"}, "my-etcd": {"--x"},
	} {
		if got := commandLine([]string{name, "--x"}); !slices.Equal(got, want) {
			t.Errorf("as %s: %q, want %q", name, got, want)
		}
	}
}

func TestClientURLs(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                              defaultClientURL,
		"--listen-client-urls=http://a": "http://a",
		"--data-dir x -listen-client-urls http://a,http://b --x": "http://a http://b",
		"--listen-client-urls": defaultClientURL,
	} {
		if got := strings.Join(clientURLs(strings.Fields(line)), " "); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// TestAssetsReplaceNoPrograms checks that envtest-assets does not replace executables that it has not created.
func TestAssetsReplaceNoPrograms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, executableName(etcdName))
	if err := os.WriteFile(file, []byte("real"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := createAssets(dir, assets{}); err == nil || !strings.Contains(err.Error(), "another etcd exists in "+dir) {
		t.Errorf("over another etcd: %v", err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "real" {
		t.Errorf("it is %q now (%v)", data, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v (%v)", entries, err)
	}
}

// TestAssetsLeaveNoParts checks that a program that cannot be copied or renamed leaves no incomplete file.
func TestAssetsLeaveNoParts(t *testing.T) {
	t.Parallel()
	notSupported := func(string, string) error { return errors.ErrUnsupported }
	folder := t.TempDir() // a folder can be opened, but not read
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, source := range map[string]string{"copy": folder, "rename": file} {
		dir := t.TempDir()
		target := filepath.Join(dir, "etcd")
		if err := os.Mkdir(target, 0o700); err != nil { // a file cannot replace it
			t.Fatal(err)
		}
		if err := linkOrCopy(source, target, notSupported); err == nil {
			t.Errorf("%s: no error", name)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("%s: the folder contains %v (%v)", name, entries, err)
		}
	}
}

// commandLines returns the command lines with which other tools run kube-apiserver in tests, keyed by tool.
func commandLines() map[string]string {
	return map[string]string{
		"envtest": `--advertise-address=127.0.0.1 --allow-privileged=true --authorization-mode=RBAC --bind-address=127.0.0.1 --cert-dir=/tmp/c
			--client-ca-file=/tmp/c/client-cert-auth-ca.crt --disable-admission-plugins=ServiceAccount --etcd-servers=http://127.0.0.1:1 --secure-port=1
			--service-account-issuer=https://127.0.0.1:1/ --service-account-key-file=/tmp/c/sa-signer.crt --service-account-signing-key-file=/tmp/c/sa-signer.key
			--service-cluster-ip-range=10.0.0.0/24`,
		"fabric8's kube-api-test, jenvtest": `--cert-dir /tmp/c --secure-port 1 --etcd-servers http://0.0.0.0:1 --authorization-mode RBAC
			--service-account-issuer https://localhost --service-account-signing-key-file /tmp/c/apiserver.key --service-account-signing-key-file /tmp/c/apiserver.key
			--service-account-key-file /tmp/c/apiserver.key --service-account-issuer /tmp/c/apiserver.crt --disable-admission-plugins ServiceAccount
			--client-ca-file /tmp/c/client.crt --service-cluster-ip-range 10.0.0.0/24 --allow-privileged`,
		"kubeadm, kindcontainer, usernetes": `--advertise-address=1.2.3.4 --allow-privileged=true --authorization-mode=Node,RBAC --client-ca-file=/tmp/ca.crt
			--enable-admission-plugins=NodeRestriction --enable-bootstrap-token-auth=true --etcd-cafile=/tmp/ca.crt --etcd-certfile=/tmp/e.crt --etcd-keyfile=/tmp/e.key
			--etcd-servers=https://1.2.3.4:2379 --kubelet-client-certificate=/tmp/k.crt --kubelet-client-key=/tmp/k.key
			--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname --proxy-client-cert-file=/tmp/p.crt --proxy-client-key-file=/tmp/p.key
			--requestheader-allowed-names=front-proxy-client --requestheader-client-ca-file=/tmp/f.crt --requestheader-extra-headers-prefix=X-Remote-Extra-
			--requestheader-group-headers=X-Remote-Group --requestheader-username-headers=X-Remote-User --runtime-config= --secure-port=6443
			--service-account-issuer=https://kubernetes.default.svc.cluster.local --service-account-key-file=/tmp/sa.pub
			--service-account-signing-key-file=/tmp/sa.key --service-cluster-ip-range=10.96.0.0/12 --tls-cert-file=/tmp/a.crt --tls-private-key-file=/tmp/a.key`,
		"kOps": `--allow-privileged=true --anonymous-auth=false --api-audiences=kubernetes.svc.default --apiserver-count=3 --audit-log-path=/tmp/audit.log
			--authorization-mode=Node,RBAC --bind-address=0.0.0.0 --client-ca-file=/tmp/ca.crt --enable-admission-plugins=NamespaceLifecycle,LimitRanger,NodeRestriction
			--etcd-cafile=/tmp/ca.crt --etcd-certfile=/tmp/e.crt --etcd-keyfile=/tmp/e.key --etcd-servers=https://127.0.0.1:4001
			--etcd-servers-overrides=/events#https://127.0.0.1:4002 --feature-gates=WatchList=true --kubelet-client-certificate=/tmp/k.crt --kubelet-client-key=/tmp/k.key
			--kubelet-preferred-address-types=InternalIP,Hostname,ExternalIP --proxy-client-cert-file=/tmp/p.crt --proxy-client-key-file=/tmp/p.key
			--requestheader-allowed-names=aggregator --requestheader-client-ca-file=/tmp/f.crt --requestheader-extra-headers-prefix=X-Remote-Extra-
			--requestheader-group-headers=X-Remote-Group --requestheader-username-headers=X-Remote-User --secure-port=443
			--service-account-issuer=https://api.internal.example.com --service-account-jwks-uri=https://api.internal.example.com/openid/v1/jwks
			--service-account-key-file=/tmp/sa.pub --service-account-signing-key-file=/tmp/sa.key --service-cluster-ip-range=100.64.0.0/13 --storage-backend=etcd3
			--tls-cert-file=/tmp/a.crt --tls-private-key-file=/tmp/a.key --tls-min-version=VersionTLS12 --v=2`,
		"k3s": `--allow-privileged=true --anonymous-auth=false --api-audiences=https://kubernetes.default.svc.cluster.local,k3s --authorization-mode=Node,RBAC
			--bind-address=127.0.0.1 --cert-dir=/tmp/temporary-certs --client-ca-file=/tmp/ca.crt --egress-selector-config-file=/tmp/egress.yaml
			--enable-admission-plugins=NodeRestriction --enable-aggregator-routing=true --enable-bootstrap-token-auth=true --etcd-servers=unix:///tmp/kine.sock
			--kubelet-certificate-authority=/tmp/k.ca --kubelet-client-certificate=/tmp/k.crt --kubelet-client-key=/tmp/k.key
			--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname --profiling=false --proxy-client-cert-file=/tmp/p.crt --proxy-client-key-file=/tmp/p.key
			--requestheader-allowed-names=system:auth-proxy --requestheader-client-ca-file=/tmp/f.crt --requestheader-extra-headers-prefix=X-Remote-Extra-
			--requestheader-group-headers=X-Remote-Group --requestheader-username-headers=X-Remote-User --secure-port=6444
			--service-account-issuer=https://kubernetes.default.svc.cluster.local --service-account-key-file=/tmp/sa.key --service-account-signing-key-file=/tmp/sa.current.key
			--service-cluster-ip-range=10.43.0.0/16 --service-node-port-range=30000-32767 --storage-backend=etcd3 --tls-cert-file=/tmp/a.crt
			--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 --tls-private-key-file=/tmp/a.key`,
		"Cluster API": `--advertise-address=10.0.0.4 --allow-privileged=true --audit-log-maxage=0 --audit-log-maxbackup=0 --audit-log-maxsize=0 --audit-log-path=/tmp/audit.log
			--audit-policy-file=/tmp/policy.yaml --authorization-mode=Node,RBAC --client-ca-file=/tmp/ca.crt --enable-admission-plugins=NodeRestriction
			--enable-bootstrap-token-auth=true --etcd-servers=https://127.0.0.1:2379 --profiling=false --secure-port=6443
			--service-account-issuer=https://kubernetes.default.svc.cluster.local --service-cluster-ip-range=10.128.0.0/12 --tls-cipher-suites=TLS_AES_128_GCM_SHA256`,
		"scripts": `--etcd-servers=http://127.0.0.1:2379 --secure-port=6443 --bind-address=0.0.0.0 --authorization-mode=AlwaysAllow --token-auth-file=/tmp/tokens
			--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,Priority --feature-gates=WatchList=true --max-requests-inflight=2000
			--max-mutating-requests-inflight=1000 --watch-cache=false --runtime-config=api/alpha=false --anonymous-auth=true -v=5`,
	}
}

// TestKnownCommandLines checks that all flags in the command lines of these tools are supported.
func TestKnownCommandLines(t *testing.T) {
	t.Parallel()
	for name, line := range commandLines() {
		command := newKubeAPIServer(process{})
		if err := command.ParseFlags(strings.Fields(line)); err != nil {
			t.Errorf("parse the flags of %s: %v", name, err)
		}
	}
}

// TestAssetsFollowNoLinks checks that envtest-assets does not write through a symbolic link in the
// folder.
func TestAssetsFollowNoLinks(t *testing.T) {
	t.Parallel()
	for _, name := range []string{assetsMarker, executableName(etcdName), executableName(kubeAPIServerName), executableName(etcdName) + ".new"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(elsewhere, []byte("content"), 0o600); err != nil {
				t.Fatal(err)
			}
			if name != assetsMarker {
				if err := createAssets(dir, assets{}); err != nil {
					t.Fatal(err)
				}
				_ = os.Remove(filepath.Join(dir, name))
			}
			if err := os.Symlink(elsewhere, filepath.Join(dir, name)); err != nil {
				t.Skip(err)
			}
			err := createAssets(dir, assets{})
			if refused := err != nil; refused != (name == assetsMarker) {
				t.Errorf("make the folder again: %v", err)
			}
			if content, err := os.ReadFile(elsewhere); err != nil || string(content) != "content" {
				t.Errorf("the file elsewhere contains %q, %v", content, err)
			}
		})
	}
}

// TestSettingsOfAssets checks the controllers and the Kubernetes version of the folder's kube-apiserver. Like
// the real one, it runs no controllers unless the folder or the command line selects some.
func TestSettingsOfAssets(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		recorded []string
		line     string
		want     string
		minor    int
	}{
		"none":                 {nil, "", "-*", 34},
		"as envtest runs it":   {nil, "--disable-admission-plugins=ServiceAccount", "-*", 34},
		"in the folder":        {[]string{"namespace-controller", "garbage-collector-controller"}, "", "namespace-controller,garbage-collector-controller", 34},
		"as a flag":            {nil, "--controllers=*,-namespace-controller", "*,-namespace-controller", 34},
		"a flag of the folder": {[]string{"*"}, "--controllers=-*", "-*", 34},
		"another version":      {nil, "--emulated-version=1.35", "-*", 35},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := createAssets(dir, assets{controllers: test.recorded, minor: 34}); err != nil {
				t.Fatal(err)
			}
			flags := newServeFlags()
			all := pflag.NewFlagSet("", pflag.ContinueOnError)
			flags.addTo(all)
			if err := all.Parse(strings.Fields(test.line)); err != nil {
				t.Fatal(err)
			}
			if err := flags.applyKubeAPIServerDefaults(t.Context(), dir, io.Discard); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(flags.config.ControlPlane.Controllers.Names, ","); got != test.want {
				t.Errorf("--controllers is %q; want %q", got, test.want)
			}
			if got := flags.config.ControlPlane.Features.Emulation.Minor; got != test.minor {
				t.Errorf("the emulated minor version is %d; want %d", got, test.minor)
			}
		})
	}
}

// TestControllersOutsideAssets checks the settings of a kube-apiserver outside a folder of envtest-assets, as
// in the container image.
func TestControllersOutsideAssets(t *testing.T) {
	t.Parallel()
	if got, err := readAssets(t.TempDir()); err != nil || !slices.Equal(got.controllers, []string{"-*"}) || got.minor != 0 {
		t.Errorf("the settings are %+v, %v; want none", got, err)
	}
}
