package securepv_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
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

var barbican = securepv.Barbican{Secret: uuid.MustParse("4a1c22f3-6c1f-4d27-9f5f-0d5a0c2a4f11"), Clouds: "shop-clouds", Cloud: "prod"}

// PV-07: where the secret is in Barbican, the initializer alone has the Kubernetes Secret with which it is read: as a golden file. Twice is as once, another
// source takes its place, and without it nothing of it is left.
func TestPV07TheSecretIsInBarbican(t *testing.T) {
	t.Parallel()
	text := statefulSet(t)
	with := options
	with.Barbican = &barbican
	once := generateWith(t, with, text)
	golden(t, "testdata/options/barbican.out.yaml", once)
	require.Equal(t, once, generateWith(t, with, once))
	require.Equal(t, once, generateWith(t, with, generate(t, text)))
	require.Equal(t, generate(t, text), generate(t, once))
	of := options
	of.Secret = &securepv.Secret{Name: "shop", Key: "seed"}
	require.Equal(t, generateWith(t, of, text), generateWith(t, of, once))
	require.Equal(t, once, generateWith(t, with, generateWith(t, of, text)))

	pod := decode(t, []byte(once))
	mode := int32(0o444)
	require.Contains(t, pod.Volumes, corev1.Volume{Name: "initializer-secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "shop-clouds", DefaultMode: &mode}}})
	require.NotContains(t, pod.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "initializer-secret", MountPath: "/run/initializer-secret", ReadOnly: true})
	some := barbican
	some.Cloud, with.Barbican = "", &some
	require.NotContains(t, generateWith(t, with, text), "OS_CLOUD")
	require.Contains(t, generateWith(t, with, podWith("")), "BARBICAN_SECRET", "a workload without a volume has its secret from there, too")
}

// PV-11: what the flags say of formatting is in the environment of initializers that open volumes, and of no others.
func TestPV11NothingIsFormatted(t *testing.T) {
	t.Parallel()
	with := options
	with.Format, with.KDF = "never", "pbkdf2"
	once := generateWith(t, with, podWith(annotated))
	require.Equal(t, []corev1.EnvVar{
		{Name: "COORDINATOR_HOST", Value: "coordinator-ready.default"}, {Name: "CRYPTSETUP_DEVICE", Value: "/dev/csi0"}, {Name: "CRYPTSETUP_FORMAT", Value: "never"}, {Name: "CRYPTSETUP_KDF", Value: "pbkdf2"},
	}, decode(t, []byte(once)).InitContainers[0].Env)
	require.Equal(t, once, generateWith(t, with, once))
	require.Equal(t, generate(t, podWith(annotated)), generate(t, once))
	require.Equal(t, generate(t, podWith("")), generateWith(t, with, podWith("")))
}

func TestParseBarbican(t *testing.T) {
	t.Parallel()
	got, err := securepv.ParseBarbican("4a1c22f3-6c1f-4d27-9f5f-0d5a0c2a4f11", "shop-clouds", "prod")
	require.NoError(t, err)
	require.Equal(t, barbican, got)
	for _, secret := range []string{"", "shop", "https://barbican.example/v1/secrets/4a1c22f3-6c1f-4d27-9f5f-0d5a0c2a4f11"} {
		_, err := securepv.ParseBarbican(secret, "shop-clouds", "")
		require.ErrorContains(t, err, "say the id of a secret of Barbican", secret)
	}
	for _, clouds := range []string{"", "shop/clouds.yaml", "Shop"} {
		_, err := securepv.ParseBarbican("4a1c22f3-6c1f-4d27-9f5f-0d5a0c2a4f11", clouds, "")
		require.ErrorContains(t, err, "which Kubernetes Secret has clouds.yaml", clouds)
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
