// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.security;

/** What the ResourceManager does with the master key of its AMRM tokens, by default once a day. */
public final class MasterKeys {
  private MasterKeys() {
  }

  /** Makes the next key, for tokens from now on; those of the one before are still good. */
  public static void roll(AMRMTokenSecretManager secrets) {
    secrets.rollMasterKey();
  }
}
