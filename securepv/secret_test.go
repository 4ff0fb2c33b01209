package securepv_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"strongroom/securepv"
)

// PV-07: where there is no coordinator, the initializer alone has one key of a Kubernetes Secret. Twice is
// as once, and without the Secret the workload is as if it had had none.
func TestPV07AWorkloadWithoutACoordinator(t *testing.T) {
	t.Parallel()
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, inputs)
	for _, input := range inputs {
		t.Run(filepath.Base(input), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(input)
			require.NoError(t, err)
			plain := generate(t, string(text))
			with := options
			with.Secret = &securepv.Secret{Name: "shop", Key: "seed"}
			once := generateWith(t, with, string(text))
			require.Equal(t, once, generateWith(t, with, once))
			require.Equal(t, once, generateWith(t, with, plain))
			require.Equal(t, plain, generate(t, once))

			pod := decode(t, []byte(once))
			c := pod.InitContainers[0]
			require.Equal(t, []corev1.EnvVar{{Name: "WORKLOAD_SECRET_FILE", Value: "/run/initializer-secret/workload-secret"}, {Name: "CRYPTSETUP_DEVICE", Value: "/dev/csi0"}}, c.Env)
			mount := corev1.VolumeMount{Name: "initializer-secret", MountPath: "/run/initializer-secret", ReadOnly: true}
			require.Contains(t, c.VolumeMounts, mount)
			for _, other := range append(pod.InitContainers[1:], pod.Containers...) {
				require.NotContains(t, other.VolumeMounts, mount)
			}
			mode := int32(0o444)
			require.Contains(t, pod.Volumes, corev1.Volume{Name: "initializer-secret", VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: "shop", Items: []corev1.KeyToPath{{Key: "seed", Path: "workload-secret", Mode: &mode}}},
			}})
		})
	}
}

// A volume that the workload's own containers mount is not the initializer's.
func TestPV07AVolumeOfTheWorkloadsOwn(t *testing.T) {
	t.Parallel()
	const text = `apiVersion: v1
kind: Pod
metadata: {name: app}
spec:
  containers:
  - name: app
    volumeMounts:
    - {name: initializer-secret, mountPath: /srv}
  volumes:
  - name: initializer-secret
    secret: {secretName: mine}
`
	require.Contains(t, generate(t, text), "secretName: mine")
	with := options
	with.Secret = &securepv.Secret{Name: "shop", Key: "seed"}
	_, err := securepv.Generate([]securepv.File{{Name: "app.yaml", Text: []byte(text)}}, with)
	require.ErrorContains(t, err, `container "app" mounts "initializer-secret"`)
}

func TestParseSecret(t *testing.T) {
	t.Parallel()
	got, err := securepv.ParseSecret("shop.one/seed_1.txt")
	require.NoError(t, err)
	require.Equal(t, securepv.Secret{Name: "shop.one", Key: "seed_1.txt"}, got)
	for _, text := range []string{"", "shop", "/seed", "shop/", "shop/a/b", "Shop/seed", "shop-/seed", "shop/se ed", "shop\n/seed"} {
		_, err := securepv.ParseSecret(text)
		require.ErrorContains(t, err, "which of its keys", text)
	}
}
