// What a kubelet does with its credential providers, by the kubelet's own code, without the rest of it: the configuration is
// read and checked as at its start, a provider is run as for a pull, and the answer is decoded as strictly.
//
// Usage: kubelet-pull CONFIG BINARIES < question.json
// The answer is one line of JSON for each line of questions, so that what is cached can be seen.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/credentialprovider/plugin"
)

// A pod that is about to run, and the image that it needs.
type question struct {
	Namespace      string            `json:"namespace"`
	Pod            string            `json:"pod"`
	UID            string            `json:"uid"`
	ServiceAccount string            `json:"serviceAccount"`
	Annotations    map[string]string `json:"annotations"`
	Token          string            `json:"token"`
	Image          string            `json:"image"`
}

type credential struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

type answer struct {
	Credentials []credential `json:"credentials"`
	// Audiences for which a token was asked.
	Audiences []string `json:"audiences"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: kubelet-pull CONFIG BINARIES")
	}
	var asked question
	var audiences []string
	token := func(namespace, name string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
		audiences = append(audiences, request.Spec.Audiences...)
		return &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: asked.Token}}, nil
	}
	account := func(namespace, name string) (*v1.ServiceAccount, error) {
		meta := metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name), Annotations: asked.Annotations}
		return &v1.ServiceAccount{ObjectMeta: meta}, nil
	}
	if err := plugin.RegisterCredentialProviderPlugins(args[0], args[1], token, account); err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		asked, audiences = question{}, []string{}
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			return err
		}
		keyring := plugin.NewExternalCredentialProviderDockerKeyring(asked.Namespace, asked.Pod, asked.UID, asked.ServiceAccount)
		found, _ := keyring.Lookup(asked.Image)
		given := answer{Credentials: []credential{}, Audiences: audiences}
		for _, one := range found {
			given.Credentials = append(given.Credentials, credential{one.Username, one.Password})
		}
		if err := json.NewEncoder(os.Stdout).Encode(given); err != nil {
			return err
		}
	}
	return lines.Err()
}
