package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientauthenticationv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"mainstay.dev/mainstay/internal/host/pki"
	"mainstay.dev/mainstay/test/testserver"
)

// credentialsOf is an environment variable that makes the test binary act as an exec plugin. It names a file
// that contains the status of the ExecCredential to print.
const credentialsOf = "MAINSTAY_TEST_CREDENTIALS_OF"

// execPlugin is the main function of an exec credential plugin (KEP-541).
func execPlugin(file string) {
	if err := printCredentials(file); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func printCredentials(file string) error {
	status, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var asked clientauthenticationv1.ExecCredential
	if err := json.Unmarshal([]byte(os.Getenv("KUBERNETES_EXEC_INFO")), &asked); err != nil || asked.Spec.Cluster == nil {
		return errors.New("the client does not say which cluster it is for")
	}
	_, err = fmt.Printf(`{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":%s}`, status)
	return err
}

// credentials issues credentials for the service account "bot" in a namespace.
type credentials struct {
	t         *testing.T
	srv       *testserver.Server
	kube      kubernetes.Interface
	namespace string
}

func newCredentials(t *testing.T, srv *testserver.Server) *credentials {
	t.Helper()
	kube := kubernetes.NewForConfigOrDie(srv.RESTConfig())
	c := &credentials{t: t, srv: srv, kube: kube, namespace: newNamespace(t, kube)}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bot"}}
	if _, err := kube.CoreV1().ServiceAccounts(c.namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return c
}

// token returns a token that is bound to a new Secret with the given name. Deleting the Secret revokes the
// token.
func (c *credentials) token(name string) string {
	c.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := c.kube.CoreV1().Secrets(c.namespace).Create(c.t.Context(), secret, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	asked := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: name},
	}}
	answer, err := c.kube.CoreV1().ServiceAccounts(c.namespace).CreateToken(c.t.Context(), "bot", asked, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return answer.Status.Token
}

func (c *credentials) revoke(name string) {
	c.t.Helper()
	if err := c.kube.CoreV1().Secrets(c.namespace).Delete(c.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *credentials) user() string { return "system:serviceaccount:" + c.namespace + ":bot" }

// file writes content to a temporary file and returns its path.
func (c *credentials) file(content string) string {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), "credentials")
	c.rewrite(file, content)
	return file
}

func (c *credentials) rewrite(file, content string) {
	c.t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// plugin returns the exec section of a kubeconfig for a plugin that prints the credentials in a file.
func (c *credentials) plugin(file string) *clientcmdapi.ExecConfig {
	c.t.Helper()
	binary, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	return &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: binary, Env: []clientcmdapi.ExecEnvVar{{Name: credentialsOf, Value: file}},
		InteractiveMode: clientcmdapi.NeverExecInteractiveMode, ProvideClusterInfo: true,
	}
}

func whoAmI(t *testing.T, client kubernetes.Interface) (string, error) {
	t.Helper()
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return review.Status.UserInfo.Username, nil
}

// TestCredentials tests each kind of client credentials.
func TestCredentials(t *testing.T) {
	t.Parallel()
	srv := testserver.New(t, testserver.Options{})
	for name, run := range map[string]func(*testing.T, *credentials){
		"a token of a plugin":       tokenOfPlugin,
		"a certificate of a plugin": certificateOfPlugin,
		"kubectl with a plugin":     kubectlWithPlugin,
		"kubectl with a token":      kubectlWithToken,
		"a token in a file":         tokenFile,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, newCredentials(t, srv))
		})
	}
}

// tokenOfPlugin checks that a client calls the plugin again after the server has rejected a revoked token.
func tokenOfPlugin(t *testing.T, c *credentials) {
	status := func(token string) string { return fmt.Sprintf(`{"token":%q}`, token) }
	file := c.file(status(c.token("first")))
	config := rest.AnonymousClientConfig(c.srv.RESTConfig())
	config.ExecProvider = c.plugin(file)
	client := kubernetes.NewForConfigOrDie(config)
	if name, err := whoAmI(t, client); name != c.user() {
		t.Fatalf("user of the plugin's first token: %q, %v; want %q", name, err, c.user())
	}
	c.rewrite(file, status(c.token("second")))
	c.revoke("first")
	if name, err := whoAmI(t, client); !apierrors.IsUnauthorized(err) {
		t.Errorf("with a token that was revoked: %q, %v", name, err)
	}
	if name, err := whoAmI(t, client); name != c.user() {
		t.Errorf("after the token was renewed: %q, %v", name, err)
	}
}

// tokenFile checks that a new client uses the current token in a token file. An existing client still uses the
// earlier token, because client-go caches the token of a file for a minute.
func tokenFile(t *testing.T, c *credentials) {
	file := c.file(c.token("first"))
	config := rest.AnonymousClientConfig(c.srv.RESTConfig())
	config.BearerTokenFile = file
	old := kubernetes.NewForConfigOrDie(config)
	if name, err := whoAmI(t, old); name != c.user() {
		t.Fatalf("user of the file's first token: %q, %v; want %q", name, err, c.user())
	}
	c.rewrite(file, c.token("second"))
	for what, client := range map[string]kubernetes.Interface{"old": old, "new": kubernetes.NewForConfigOrDie(config)} {
		if name, err := whoAmI(t, client); name != c.user() {
			t.Errorf("the %s client while both tokens are valid: %q, %v", what, name, err)
		}
	}
	c.revoke("first")
	if name, err := whoAmI(t, kubernetes.NewForConfigOrDie(config)); name != c.user() {
		t.Errorf("after the first token was revoked: %q, %v", name, err)
	}
}

func certificateOfPlugin(t *testing.T, c *credentials) {
	testserver.RootOnly(t, "the authority of other control planes has no file")
	authority, err := pki.Open(filepath.Join(c.srv.Dir(), "pki"))
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := authority.Client(c.namespace, "jane")
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(c.srv.RESTConfig())
	config.ExecProvider = c.plugin(c.file(fmt.Sprintf(`{"clientCertificateData":%q,"clientKeyData":%q}`, cert, key)))
	if name, err := whoAmI(t, kubernetes.NewForConfigOrDie(config)); name != "jane" {
		t.Errorf("user of the plugin's certificate: %q, %v; want jane", name, err)
	}
}

// kubeconfig writes a kubeconfig with the credentials in user and returns its path.
func (c *credentials) kubeconfig(user *clientcmdapi.AuthInfo) string {
	c.t.Helper()
	config, err := clientcmd.LoadFromFile(c.srv.Kubeconfig())
	if err != nil {
		c.t.Fatal(err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = user
	}
	file := filepath.Join(c.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		c.t.Fatal(err)
	}
	return file
}

const whoIsIt = "jsonpath={.status.userInfo.username}"

func kubectlWithPlugin(t *testing.T, c *credentials) {
	k := newKubectl(t, c.srv, t.TempDir())
	file := c.file(fmt.Sprintf(`{"token":%q}`, c.token("first")))
	k.prints(c.user(), "auth", "whoami", "-o", whoIsIt, "--kubeconfig="+c.kubeconfig(&clientcmdapi.AuthInfo{Exec: c.plugin(file)}))
}

// kubectlWithToken checks that a token authenticates its service account and grants only the account's
// permissions.
func kubectlWithToken(t *testing.T, c *credentials) {
	k := newKubectl(t, c.srv, t.TempDir())
	token := strings.TrimSpace(k.ok("create", "token", "bot", "--namespace="+c.namespace))
	kubeconfig := "--kubeconfig=" + c.kubeconfig(&clientcmdapi.AuthInfo{Token: token})
	k.prints(c.user(), "auth", "whoami", "-o", whoIsIt, kubeconfig)
	k.fails(1, "cannot list resource \"pods\"", "get", "pods", kubeconfig)
	k.ok("create", "rolebinding", "viewer", "--clusterrole=view", "--serviceaccount="+c.namespace+":bot")
	k.ok("get", "pods", kubeconfig)
	k.fails(1, "You must be logged in to the server", "auth", "whoami", "--kubeconfig="+c.kubeconfig(&clientcmdapi.AuthInfo{Token: token + "x"}))
}
